//! In-process nodes and real servers for tests of distributed locks.
//!
//! [`MemoryNode`] answers as a Redis server does, inside the test's own process, and can be made to
//! fail in all the ways that a server fails:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use lock_core::node::Operation;
//! use lock_core::{Command, RedisNode, Reply, Token, Ttl};
//! use lock_testkit::{Fault, MemoryNode};
//! # use lock_core::runtime::{BoxFuture, Runtime};
//! # #[derive(Debug)]
//! # struct NoRuntime;
//! # impl Runtime for NoRuntime {
//! #     fn now(&self) -> Duration { Duration::ZERO }
//! #     fn wall(&self) -> std::time::SystemTime { std::time::SystemTime::now() }
//! #     fn random(&self) -> [u8; 16] { [7; 16] }
//! #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(async {}) }
//! #     fn spawn(&self, _: BoxFuture<'static, ()>) {}
//! # }
//! # let token = Token::generate(&NoRuntime);
//! # futures::executor::block_on(async {
//! let node = MemoryNode::new("memory-1");
//! let acquire = Command::from(Operation::Acquire {
//!     key: Arc::from(*b"invoice-17"),
//!     token,
//!     ttl: Ttl::new(Duration::from_secs(30))?,
//! });
//! let within = Duration::from_millis(100);
//! assert_eq!(node.execute(&acquire, within).await?, Reply::ok());
//! assert_eq!(node.execute(&acquire, within).await?, Reply::Nil);
//!
//! node.set_fault(Fault::Refuse);
//! assert!(node.execute(&acquire, within).await.is_err());
//! node.heal();
//! assert_eq!(node.get("invoice-17").as_deref(), Some(token.as_bytes()));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`RedisServer`] starts a real server, on Unix, and leaves nothing behind.

mod memory;
#[cfg(unix)]
mod server;

pub use memory::{Calls, Fault, MemoryNode};
#[cfg(unix)]
pub use server::{Connection, RedisServer, RedisServerBuilder, ServerError};
