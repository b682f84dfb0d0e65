//! A redis-server for tests, and what makes commands short to write.

#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::unimplemented)]

mod commands;
mod server;

pub use commands::*;
pub use server::RedisServer;
