//! A `DistributedLock` that is no Redlock at all: leases in files, for processes of one machine.
//!
//! Whoever takes an `Arc<dyn DistributedLock>` runs unchanged on it, and the conformance suite for
//! locks says whether it may: `cargo test -p examples --example custom_lock`.
//!
//! `cargo run --release --example custom_lock`, in two terminals at once.

#[cfg(all(test, unix))]
mod conformance;
mod file_lock;
mod held;
mod lease;

use std::sync::Arc;
use std::time::Duration;

use file_lock::FileLock;
use lock_core::{DistributedLock, DistributedLockExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join("custom-lock-example");
    let locks: Arc<dyn DistributedLock> = Arc::new(FileLock::new(dir)?);

    println!("Waiting for the lock.");
    let guard = locks.lock("invoice-7").await?;
    println!("Locked as {}. Paying invoice 7.", guard.token());
    tokio::time::sleep(Duration::from_secs(3)).await;
    guard.release().await?;
    println!("Done.");
    Ok(())
}
