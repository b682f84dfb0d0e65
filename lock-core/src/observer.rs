//! What a program can hear of its locks and nodes, for metrics and alarms: an [`Observer`].
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use lock_core::observer::{Acquired, Lost, Observer};
//! use lock_core::{DistributedLockExt, Redlock};
//! # use lock_testkit::MemoryNode;
//!
//! #[derive(Default)]
//! struct Counts {
//!     acquired: AtomicU64,
//!     lost: AtomicU64,
//! }
//!
//! impl Observer for Counts {
//!     fn acquired(&self, _event: &Acquired<'_>) {
//!         self.acquired.fetch_add(1, Ordering::Relaxed);
//!     }
//!
//!     fn lost(&self, _event: &Lost<'_>) {
//!         self.lost.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//!
//! # futures::executor::block_on(async {
//! let counts = Arc::new(Counts::default());
//! let locks = Redlock::builder()
//!     .nodes(MemoryNode::several(3))
//!     .observer(counts.clone())
//!     .build()?;
//! locks.lock("invoice-7").await?.release().await?;
//! assert_eq!(counts.acquired.load(Ordering::Relaxed), 1);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The example `metrics` exports all of it by the crate [`metrics`](https://docs.rs/metrics), as Prometheus
//! reads it.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use crate::error::{AcquireError, Loss};
use crate::fencing::FencingToken;
use crate::held::Votes;
use crate::node::{NodeError, Token};

/// Hears what happens to the locks of a [`Redlock`](crate::Redlock) and to its nodes: the same events, at the
/// same moments, as [`tracing`](crate#what-it-logs) does. Each method does nothing by default.
///
/// It is set by [`RedlockBuilder::observer`](crate::RedlockBuilder::observer).
///
/// # Contract
///
/// - Methods are called where things happen, on any thread and between two steps of the engine: they should
///   count and return. No lock of the engine is held meanwhile, so they may call it.
/// - Events of nodes and of the quorum are told in the order in which they happened, one at a time, perhaps by a
///   thread that told an earlier one. Those of one lock may come from several threads at once.
/// - A panic goes no further than the panic hook.
/// - Two things in an event are not for everybody. Names of resources are the application's; as a label of a
///   metric they are rarely of use, since there is no end of them. And
///   [`Contended::holder`](crate::Contended::holder), in the error of [`not_acquired`](Self::not_acquired), is the
///   whole value of the holder's key, with which anybody who reaches the nodes can release the lock: export
///   [`owner`](crate::Contended::owner) or the text of the error instead. Nothing else is a secret.
pub trait Observer: Send + Sync + 'static {
    /// A lock was acquired, after a wait or without one.
    fn acquired(&self, _event: &Acquired<'_>) {}

    /// A lock was not acquired. A call that is dropped tells nothing, nor does bad input.
    fn not_acquired(&self, _event: &NotAcquired<'_>) {}

    /// A held lock was extended, by its guard or automatically.
    fn extended(&self, _event: &Extended<'_>) {}

    /// A held lock could not be extended. It is held still if something of its validity
    /// [remains](NotExtended::remaining).
    fn not_extended(&self, _event: &NotExtended<'_>) {}

    /// A held lock is gone. Each lock is told once, when the loss is noticed: one that nobody extends, waits
    /// for or releases may have ended long before. A [shutdown](Loss::ShutDown) is not told.
    fn lost(&self, _event: &Lost<'_>) {}

    /// A release came to its outcome. [`Unavailable`](ReleaseOutcome::Unavailable) is told once for each lock, however
    /// often its release is tried.
    fn released(&self, _event: &Released<'_>) {}

    /// A node does not serve any more: it did not answer in time, could not be reached, or said that it is out
    /// of service. This is told once, until [`node_up`](Self::node_up).
    fn node_down(&self, _event: &NodeDown<'_>) {}

    /// A node that was down has served in time for a second. Of one that was out of memory, only what sets keys counts
    /// at first.
    fn node_up(&self, _node: &str) {}

    /// With this node, so many are down that no lock can be acquired. It is told once, until
    /// [`quorum_back`](Self::quorum_back).
    fn quorum_out_of_reach(&self, _event: &QuorumOutOfReach) {}

    /// Enough nodes are up again to acquire locks.
    fn quorum_back(&self) {}
}

/// Names one acquisition in logs and events, so that what happened to a lock can be joined, across processes
/// too. It is made of the lock's token, which it does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockId(u32);

impl LockId {
    pub(crate) fn of(token: &Token) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(token.as_bytes());
        // A quarter of the token's random bits, and mixed: nobody finds the token by it.
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        Self(u32::from_le_bytes([a, b, c, d]))
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// See [`Observer::acquired`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Acquired<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Names the acquisition.
    pub lock: LockId,
    /// How long the call waited.
    pub waited: Duration,
    /// How many attempts it made.
    pub attempts: u32,
    /// How many nodes had granted the lock by then.
    pub votes: Votes,
    /// Its fencing token, if it has one.
    pub fencing_token: Option<FencingToken>,
}

/// See [`Observer::not_acquired`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NotAcquired<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Why: [`Contended`](AcquireError::Contended) is normal, every other error matters to operators.
    ///
    /// Its [`holder`](crate::Contended::holder) is a secret: with it, anybody can release the lock. Neither the
    /// error's `Display` nor its `Debug` shows it.
    pub error: &'a AcquireError,
}

/// See [`Observer::extended`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Extended<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Names the acquisition.
    pub lock: LockId,
    /// How long the lock can be relied on from now on.
    pub remaining: Duration,
}

/// See [`Observer::not_extended`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NotExtended<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Names the acquisition.
    pub lock: LockId,
    /// How long the lock can be relied on still.
    pub remaining: Duration,
}

/// See [`Observer::lost`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Lost<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Names the acquisition.
    pub lock: LockId,
    /// How it was lost.
    pub loss: Loss,
    /// The time from before its first command until now.
    pub held: Duration,
}

/// See [`Observer::released`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Released<'a> {
    /// The resource; the first one, if there are several.
    pub resource: &'a [u8],
    /// Names the acquisition.
    pub lock: LockId,
    /// The time from before its first command until now.
    pub held: Duration,
    /// What the release came to.
    pub outcome: ReleaseOutcome,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was held, and is free now.
    Released,
    /// The lock was not held any more.
    NotHeld,
    /// Too few nodes answered in time. The release goes on in the background.
    Unavailable,
}

impl ReleaseOutcome {
    /// `released`, `not held` or `too few answers`, as in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::NotHeld => "not held",
            Self::Unavailable => "too few answers",
        }
    }
}

/// See [`Observer::node_down`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeDown<'a> {
    /// The node's label.
    pub node: &'a str,
    /// What the call came to by which this was noticed.
    pub error: &'a NodeError,
}

/// See [`Observer::quorum_out_of_reach`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuorumOutOfReach {
    /// How many nodes are up.
    pub up: usize,
    /// How many are needed.
    pub quorum: usize,
}
