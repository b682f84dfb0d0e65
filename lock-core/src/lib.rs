//! Distributed locks: the [`DistributedLock`] trait, and the [`Redlock`] algorithm over any Redis
//! client ([`RedisNode`]) and any async runtime ([`Runtime`]).
//!
//! An application needs a backend crate for its Redis client, such as `lock-redis-rs`, and then this:
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{DistributedLockExt, LockRequest, Redlock};
//!
//! # use lock_testkit::MemoryNode;
//! # futures::executor::block_on(async {
//! # let nodes = MemoryNode::several(5);
//! let locks = Redlock::new(nodes)?;
//!
//! let guard = locks.lock("invoice-7").await?;
//! assert!(guard.is_valid());
//! guard.release().await?;
//!
//! let request = LockRequest::new("report").ttl(Duration::from_secs(5));
//! match locks.try_lock(request).await? {
//!     Some(guard) => println!("held for {:?}", guard.remaining()),
//!     None => println!("somebody else holds it"),
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # What can be relied on
//!
//! Two guards of one resource are not valid at the same time, as long as clocks run at about the
//! same rate, no node forgets a key before its ttl ends, and a holder stops when its guard is no
//! longer [valid](LockGuard::is_valid). These are leases: a holder that sleeps past its validity is
//! not stopped by anybody.
//!
//! # Where to look
//!
//! - [`DistributedLock`] and [`DistributedLockExt`]: what applications call; [`LockRequest`] and
//!   [`LockGuard`] go with it.
//! - [`Redlock`]: the algorithm, with its [builder](RedlockBuilder).
//! - [`tick`]: a job that runs once per tick of a schedule on several instances.
//! - [`backend`]: for authors of a backend; the rules of a node are in [`node`]. [`runtime`]: for custom
//!   executors.
//!
//! # What it logs
//!
//! The crate tells [`tracing`](https://docs.rs/tracing) what happens, under the target `lock_core`.
//! Names of resources and labels of nodes are part of it, tokens and passwords never are.
//!
//! | level | event | fields |
//! |---|---|---|
//! | warn | `lost`: a held lock is gone, or an extended one could not be kept | `key`, `loss`, `held_us` |
//! | debug | `acquired` | `resource`, `attempts`, `waited_us`, `granted`, `nodes` |
//! | debug | `contended`, `not acquired` | `resource`, `attempts`, `waited_us`, `error` |
//! | debug | `extended`, `not extended` | `key`, `remaining_us`, `error` |
//! | debug | `extended together`: one round of automatic extensions | `locks`, `extended`, `took_us` |
//! | debug | `release` | `key`, `held_us`, `outcome` |
//! | debug | `release owed`: a node has not answered a release, which is sent again | `node`, `key` |
//! | debug | `node is suspect`, `node answers again` | `node`, `within_us` |
//! | trace | `answered`, `not answered`: the end of each call to a node | `node`, `operation`, `error` |
//!
//! Everything of one acquire is inside the span `acquire` with the field `resource`.
//!
//! # Features
//!
//! - `tokio`: finds tokio's runtime by itself and uses its timers and tasks. Off by default;
//!   backends that run on tokio switch it on. Without it a [thread](runtime::ThreadRuntime) of this
//!   crate does that work, under any executor.
//! - `serde`: a [`Lease`] can be written and read by serde. Off by default.

/// Whether the engine shall misbehave in this way, for the simulator to notice: never, unless it
/// is compiled with `--cfg lock_mutants`.
#[cfg(not(lock_mutants))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}
#[cfg(lock_mutants)]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is($crate::mutants::Mutant::$name)
    };
}

pub mod backend;
mod display;
mod error;
mod guard;
mod inspection;
mod lease;
mod lock;
#[cfg(lock_mutants)]
#[doc(hidden)]
pub mod mutants;
pub mod node;
mod redlock;
mod request;
mod retry;
pub mod runtime;
mod scope;
mod scripts;
pub mod tick;
mod trace;
mod ttl;

pub use error::{
    AcquireError, BuildError, Contended, ExtendError, ForceReleaseError, InvalidInput, NodeReport,
    NodeReports, NodeVote, ReleaseError, ResumeError, ShutdownError, TooSlow, Unavailable,
    WithLockError,
};
pub use guard::{HeldLock, LockGuard, Loss, Votes};
pub use inspection::{Inspection, LockKey, NodeInspection};
pub use lease::{Lease, ParseLeaseError};
pub use lock::{DistributedLock, DistributedLockExt};
pub use node::{Command, NodeError, RedisNode, Reply, Token};
pub use redlock::{Redlock, RedlockBuilder};
pub use request::LockRequest;
pub use retry::{Jitter, RetryPolicy};
pub use runtime::Runtime;
pub use ttl::Ttl;
