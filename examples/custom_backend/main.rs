//! A backend for a Redis client that no crate of ours knows.
//!
//! `client.rs` stands for that client, `node.rs` and `connection.rs` are the backend, and
//! `conformance.rs` is its test: `cargo test -p examples --example custom_backend`. The guide
//! "Write your own backend" in the docs goes through them.
//!
//! `cargo run --release --example custom_backend -- 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003`

mod client;
#[cfg(all(test, unix))]
mod conformance;
mod connection;
mod node;

use lock_core::{DistributedLockExt, Redlock};
use node::MyNode;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses: Vec<String> = std::env::args().skip(1).collect();
    if addresses.is_empty() {
        return Err("give the addresses of independent servers: 127.0.0.1:7001 ...".into());
    }
    let locks = Redlock::new(addresses.into_iter().map(MyNode::new).collect::<Vec<_>>())?;

    let guard = locks.lock("invoice-7").await?;
    println!(
        "Locked by {} of {} nodes.",
        guard.votes().granted,
        guard.votes().nodes
    );
    guard.release().await?;
    Ok(())
}
