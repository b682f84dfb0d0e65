//! How to test code of yours that takes a lock: in the process, without a server, in virtual time.
//!
//! `reminders.rs` is the code of an application, `tests.rs` its tests, for you to copy from:
//! `cargo test -p examples --example unit_tests`. They need these lines in your `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! lock-testkit = { version = "0.1", features = ["tokio"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util", "time"] }
//! ```
//!
//! `cargo run --release --example unit_tests` runs the application once.

mod reminders;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use lock_core::Redlock;
use lock_testkit::MemoryNode;
use reminders::{Counts, Mailbox, Reminders};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Arc::new(Redlock::new(MemoryNode::several(3))?);
    let mailbox = Mailbox::default();
    let reminders = Reminders::new(locks, mailbox.clone());
    let round = reminders.send_all(&["Ada", "Grace"]).await?;
    println!("{round:?}: {:?}", mailbox.sent());
    reminders.send_now("Edsger").await?;
    println!("And one more: {:?}", mailbox.sent());
    let counts = Counts::default();
    let counting = reminders.count_forever(&counts);
    // In a service this never ends.
    tokio::time::timeout(Duration::from_secs(3), counting)
        .await
        .ok();
    println!("Counted each second: {:?}", counts.all());
    Ok(())
}
