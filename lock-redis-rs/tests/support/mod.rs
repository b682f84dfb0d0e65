//! A redis-server for tests, and what makes commands short to write.

#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::unimplemented, unused_imports)]

mod commands;
mod fake;
#[path = "../rt/mod.rs"]
mod rt;
mod server;

pub use commands::*;
pub use fake::{Act, FakeServer};
pub(crate) use rt::*;
pub use server::RedisServer;
