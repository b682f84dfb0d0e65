//! A first program: one lock over five nodes.
//!
//! `cargo run --release --example quickstart`

use lock_core::{DistributedLockExt, Redlock};
use lock_testkit::MemoryNode;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In-process nodes need no server. For real ones, give five independent servers:
    // `urls.map(RedisRsNode::new)` from the crate lock-redis-rs, or `FredNode` from lock-fred.
    let locks = Redlock::new(MemoryNode::several(5))?;

    let guard = locks.lock("invoice-7").await?;
    println!(
        "Paying invoice 7. Nobody else does, for {:.1?}.",
        guard.remaining()
    );
    guard.release().await?;
    Ok(())
}
