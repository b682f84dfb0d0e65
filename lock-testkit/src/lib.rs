//! In-process nodes and real servers for tests of distributed locks.
//!
//! # Without a server
//!
//! [`MemoryNode`] answers as a Redis server does, inside the test's own process, and can be made to
//! fail in the ways that servers fail. Under tokio's paused clock
//! (`#[tokio::test(start_paused = true)]`) a test of hours takes milliseconds:
//!
//! ```
//! use std::time::Duration;
//!
//! use lock_core::{DistributedLockExt, Redlock};
//! use lock_testkit::{Fault, MemoryNode};
//!
//! # tokio::runtime::Builder::new_current_thread()
//! #     .enable_all()
//! #     .start_paused(true)
//! #     .build()?
//! #     .block_on(async {
//! let nodes = MemoryNode::several(3);
//! let locks = Redlock::new(nodes.clone())?;
//!
//! // A node that hangs does no harm: two of three are a majority.
//! nodes[0].set_fault(Fault::Hang);
//! let guard = locks.lock("invoice-17").await?;
//! assert_eq!(nodes[1].get("invoice-17").as_deref(), Some(guard.token().as_bytes()));
//!
//! // Nothing extends the lock, so it ends.
//! tokio::time::sleep(Duration::from_secs(31)).await;
//! assert!(!guard.is_valid());
//! assert!(nodes[1].keys().is_empty());
//!
//! // When two fail, there is no majority left: an outage, not contention.
//! nodes[1].set_fault(Fault::Refuse);
//! assert!(locks.lock("invoice-17").await.is_err());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # With real servers
//!
//! [`RedisServer`] starts a `redis-server` for one test, on Unix, which can be paused, killed and
//! restarted, and leaves nothing behind. A [`FaultProxy`] in front of it breaks the connections in
//! the ways that networks do, and records the requests of the clients:
//!
//! ```no_run
//! use lock_testkit::{FaultProxy, ProxyFault, RedisServer};
//!
//! let server = RedisServer::start()?;
//! let proxy = FaultProxy::start(server.addr())?;
//! // The lock under test connects to `proxy.addr()`, not to the server.
//!
//! proxy.set_fault(ProxyFault::CutBeforeReply); // The next request is done, but its reply is lost.
//! proxy.set_fault(ProxyFault::BlackHole); // Nothing arrives any more, and nothing is closed.
//! proxy.heal();
//!
//! assert_eq!(proxy.open_connections(), 0);
//! assert!(proxy.requests().is_empty());
//! # Ok::<_, lock_testkit::ServerError>(())
//! ```
//!
//! A [`RedisCluster`] is several of them, whose slots can be moved while clients use them.
//!
//! # For authors of backends and locks
//!
//! [`conformance!`] tests a backend against each rule of [`RedisNode`](lock_core::RedisNode), and
//! [`lock_conformance!`] a lock against each rule of [`DistributedLock`](lock_core::DistributedLock);
//! see [`conformance`](mod@conformance). [`sim`] runs either in a deterministic simulator.
//!
//! # Features
//!
//! - `tokio`: `conformance::TokioDriver`. Off by default; switches on `lock-core/tokio`.
//! - `smol`: `conformance::SmolDriver`. Off by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod conformance;
mod memory;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod server;
pub mod sim;

pub use memory::{Calls, Fault, MemoryNode};
#[cfg(unix)]
pub use proxy::{FaultProxy, ProxyFault};
#[cfg(unix)]
pub use server::{Connection, RedisCluster, RedisServer, RedisServerBuilder, ServerError};

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
