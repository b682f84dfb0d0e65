//! Distributed locks: the [`DistributedLock`] trait, and the [`Redlock`] algorithm over any Redis
//! client ([`RedisNode`]) and any async runtime ([`Runtime`]).
//!
//! An application takes a backend crate for its Redis client, such as `lock-redis-rs`, makes its
//! nodes, and locks:
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
//! Two guards of one resource are never valid at the same time, as long as clocks run at about the
//! same rate, no node forgets a key before its ttl ends, and a holder stops when its guard is no
//! longer [valid](LockGuard::is_valid). These are leases: nothing stops a holder that sleeps past
//! its validity.
//!
//! # Where to look
//!
//! - [`DistributedLock`] and [`DistributedLockExt`] are what applications call, with a
//!   [`LockRequest`] or a name, to get a [`LockGuard`].
//! - [`Redlock`] is the algorithm, with its [builder](RedlockBuilder).
//! - [`tick`] has jobs that run once per tick of a schedule, on one of several instances.
//! - [`observer`] has what a program can hear of its locks and nodes, for metrics, and [`check`] what the nodes say
//!   when they are asked, for readiness probes.
//! - [`backend`] and [`node`] are for backend authors, [`custom`] for authors of locks of another kind,
//!   [`runtime`] for custom executors.
//!
//! # What it logs
//!
//! The crate emits events of [`tracing`](https://docs.rs/tracing) under the target `lock_core`. They
//! contain names of resources and hosts and labels of nodes, but never a token or a password. An
//! [`Observer`] hears the ones that are marked with a star.
//!
//! | level | event | fields |
//! |---|---|---|
//! | warn | `lost` *: a held lock is gone. Told once, when that is noticed | `resource`, `lock`, `loss`, `held_us` |
//! | warn | `node is down` *: it does not answer in time, cannot be reached or is out of service | `node`, `error` |
//! | warn | `quorum is out of reach` *: so many nodes are down that no lock can be acquired | `up`, `quorum` |
//! | info | `node is up again` *: it has served in time for a second; `quorum is back` * | `node` |
//! | warn | `node is the same server as another`: it is not asked any more, since it would vote twice | `node`, `other` |
//! | warn | `release given up`: too many releases are owed to a node, so a key lives until its ttl ends | `node`, `resource`, `lock` |
//! | warn | `the name of a node has several addresses`: they must lead to one server | `host`, `addresses` |
//! | warn | `the wall clock was set back`: ticks go on by the new time | `job`, `by_us` |
//! | warn | `another instance claims ticks by other rules`: once, see [`tick`](tick#changing-the-rules) | `job`, `tick`, `retention_us`, `left_us` |
//! | warn | `tick not run`, by [`run_forever`](tick::TickJob::run_forever): an outage, too late, or beside another run | `job`, `tick`, `reason` |
//! | warn | `job failed`, `job panicked` | `job`, `tick`, `took_us`, `error`, `panic` |
//! | debug | `tick run`, `tick claimed elsewhere` | `job`, `tick`, `took_us` |
//! | debug | `acquired` * | `resource`, `lock`, `attempts`, `waited_us`, `granted`, `nodes`, `fencing_token` |
//! | debug | `contended` *, `not acquired` * | `resource`, `attempts`, `waited_us`, `error` |
//! | debug | `extended` *, `not extended` *, by a guard or automatically | `resource`, `lock`, `remaining_us`, `error` |
//! | debug | `extended together`: one round of automatic extensions | `locks`, `extended`, `took_us` |
//! | debug | `release` *: what it came to | `resource`, `lock`, `held_us`, `outcome` |
//! | debug | `guard was dropped at once`, within a millisecond of its acquisition: perhaps by `let _ =` | `resource`, `lock`, `hint` |
//! | debug | `release owed`: a node has not answered a release, so it is sent again | `node`, `resource`, `lock` |
//! | trace | `answered`, `not answered`: the end of each call to a node | `node`, `operation`, `error` |
//!
//! `lock` names one acquisition by eight digits, so that all that happened to it can be joined. All events
//! of one acquire are inside the span `acquire`, which has the field `resource`.
//!
//! What is told of a node is noticed by the commands of locks; none is sent for it. So a node that came back
//! is told of when it is used, and each `Redlock` tells of its own nodes.
//!
//! # Features
//!
//! - `tokio`: finds tokio's runtime by itself and uses its timers and tasks. Off by default;
//!   backends on tokio switch it on. Without it, a [thread](runtime::ThreadRuntime) of this crate
//!   does that work under any executor.
//! - `cron`: ticks of cron expressions with time zones (`TickJob::cron`), by the crates `croner` and
//!   `chrono-tz`. Off by default.
//! - `serde`: serde can write and read a [`Lease`] and a [`FencingToken`]. Off by default.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Whether the engine is to have this bug, for the simulator to notice: never, unless it is compiled
/// with `--cfg lock_mutants`.
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
pub mod check;
pub mod custom;
mod display;
mod error;
mod events;
mod fencing;
mod guard;
mod held;
mod inspection;
mod lease;
mod lock;
#[cfg(lock_mutants)]
#[doc(hidden)]
pub mod mutants;
pub mod node;
mod note;
pub mod observer;
mod redlock;
mod request;
mod retry;
pub mod runtime;
mod scope;
mod scripts;
mod sync;
pub mod tick;
mod ttl;

pub use error::{
    AcquireError, BootstrapError, BuildError, Contended, ExtendError, FlushError,
    ForceReleaseError, InvalidInput, Loss, NodeReport, NodeReports, NodeVote, ReleaseError,
    ResumeError, ShutdownError, TooSlow, Unavailable, WithLockError,
};
pub use fencing::FencingToken;
pub use guard::LockGuard;
pub use held::{HeldReport, Votes};
pub use inspection::{Inspection, ListedLock, Listing, LockKey, NodeInspection};
pub use lease::{Lease, ParseLeaseError};
pub use lock::{DistributedLock, DistributedLockExt};
pub use node::{Command, NodeError, RedisNode, Reply, Token};
pub use observer::Observer;
pub use redlock::{Redlock, RedlockBuilder, RestartGuard};
pub use request::LockRequest;
pub use retry::{Jitter, RetryPolicy};
pub use runtime::Runtime;
pub use ttl::Ttl;

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
