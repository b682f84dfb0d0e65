//! What makes tests of a backend with servers short to write.

#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::unimplemented, unused_imports)]

mod commands;
mod fake;
mod forwarder;

pub use commands::*;
pub use fake::{Act, FakeServer, RawServer, answer_handshake, send_endlessly};
pub use forwarder::Forwarder;
pub use lock_testkit::RedisServer;
