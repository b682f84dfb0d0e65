//! What makes tests with servers short to write.

#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, unused_imports)]

// The same for all backends.
#[path = "../../../lock-redis-rs/tests/support/commands.rs"]
mod commands;
mod fake;

pub use commands::*;
pub use fake::{Act, FakeServer};
pub use lock_testkit::RedisServer;
