//! A backend for a Redis client that no crate of ours knows.
//!
//! `backend.rs` has that client and the backend, and `conformance.rs` is their test:
//! `cargo test -p examples --example custom_backend`. The guide "Write your own backend" in the docs
//! goes through them.
//!
//! `cargo run --release --example custom_backend -- 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003`

mod backend;
#[cfg(all(test, unix))]
mod conformance;

use backend::MyClient;
use lock_core::backend::ClientNode;
use lock_core::{DistributedLockExt, Redlock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::args().skip(1).map(MyClient);
    let nodes: Vec<_> = servers.map(ClientNode::new).collect();
    if nodes.is_empty() {
        return Err("give the addresses of independent servers: 127.0.0.1:7001 ...".into());
    }
    let locks = Redlock::new(nodes)?;

    let guard = locks.lock("invoice-7").await?;
    println!(
        "Locked by {} of {} nodes.",
        guard.votes().granted,
        guard.votes().nodes
    );
    guard.release().await?;
    Ok(())
}
