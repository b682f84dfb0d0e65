//! The Redlock algorithm: a lock on a quorum of independent nodes.

mod acquire;
mod acquisition;
mod backlog;
mod builder;
mod calls;
mod check;
mod confirm;
mod debts;
mod delays;
mod engine;
mod extend;
mod fanout;
mod fill;
mod guard;
mod held;
mod news;
mod node;
pub(crate) mod protocol;
mod registry;
mod release;
mod renew;
mod renewals;
mod settings;
mod several;
mod shutdown;
mod survey;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use builder::RedlockBuilder;
pub use guard::RestartGuard;

use crate::check::CheckReport;
use crate::error::{
    AcquireError, BootstrapError, BuildError, FlushError, ForceReleaseError, InvalidInput,
    ResumeError, ShutdownError,
};
use crate::guard::LockGuard;
use crate::held::HeldReport;
use crate::inspection::{Inspection, Listing};
use crate::lease::Lease;
use crate::lock::DistributedLock;
use crate::node::RedisNode;
use crate::request::LockRequest;
use engine::Engine;

/// A lock on a quorum of independent Redis servers.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{BuildError, DistributedLockExt, Redlock};
/// # use lock_testkit::MemoryNode as RedisRsNode;
///
/// /// What a service keeps: one `Redlock` for the whole process.
/// struct App {
///     locks: Redlock,
/// }
///
/// impl App {
///     fn new(nodes: Vec<RedisRsNode>) -> Result<Self, BuildError> {
///         let locks = Redlock::builder()
///             .nodes(nodes)
///             .prefix("shop:")
///             .ttl(Duration::from_secs(10))
///             .build()?;
///         Ok(Self { locks: locks.into() })
///     }
/// }
///
/// # futures::executor::block_on(async {
/// # let nodes = RedisRsNode::several(5);
/// let app = App::new(nodes)?;
/// let guard = app.locks.lock("invoice-7").await?;
/// let seen = app.locks.inspect("invoice-7").await?;
/// assert_eq!(seen.is_locked(), Some(true));
/// guard.release().await?;
/// app.locks.shutdown().await?; // at the end of the program
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Cloning it is cheap; clones share everything.
///
/// `N` is the type of its nodes. `Redlock` alone, as the type of a field or an argument, is
/// `Redlock<dyn RedisNode>`, which hides their type: any `Redlock<N>` becomes one
/// by `into()`, and nodes of several types make one with
/// [`RedlockBuilder::node`].
///
/// # The algorithm
///
/// It is Redlock as [Redis describes it][redlock], and more: an attempt is decided at the first
/// moment at which its outcome is certain, so that a hung node costs nothing; every node that may
/// have the key of a failed, late or cancelled attempt gets a release behind it; a node that hangs is
/// asked by one attempt at a time; and rivals that split the votes sort it out by asking one node
/// first.
///
/// The validity of a lock counts from before the first command was sent, less an allowance for
/// clocks that run at different rates: `ttl * drift_factor + 2 ms`.
///
/// [redlock]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
pub struct Redlock<N: ?Sized = dyn RedisNode> {
    engine: Arc<Engine>,
    /// The nodes of the engine once more, by their own type, for [`nodes`](Self::nodes).
    nodes: Arc<[Arc<N>]>,
}

impl<N: RedisNode> Redlock<N> {
    /// Makes a lock over these nodes, with all defaults. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: no nodes, more than 64, or one of them twice.
    pub fn new(nodes: impl IntoIterator<Item = N>) -> Result<Self, BuildError> {
        Self::builder().nodes(nodes).build()
    }
}

impl<N: RedisNode + ?Sized> Redlock<N> {
    /// Begins a lock with settings of your own.
    pub fn builder() -> RedlockBuilder<N> {
        RedlockBuilder::new()
    }

    /// Asks all nodes about a lock and its holder, and changes nothing. For operators and tests: to be
    /// certain, acquire the lock.
    ///
    /// Nodes that fail are part of the answer.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`]: the resource is empty or too long. Nothing was sent.
    ///
    /// # Cancel safety
    ///
    /// The call may be dropped at any time.
    pub async fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, InvalidInput> {
        survey::inspect(&self.engine, resource.as_ref()).await
    }

    /// The locks that are held by this lock and its clones at present, the oldest first: by guards that live
    /// and by bodies that run. Nothing is sent.
    #[must_use]
    pub fn held(&self) -> Vec<HeldReport> {
        held::all(&self.engine)
    }

    /// Asks all nodes which locks there are, whoever holds them, and about each of them as
    /// [`inspect`](Self::inspect) does: those whose names begin with `prefix`, behind the lock's own prefix, and
    /// at most `max`. For operators: it goes through all keys of each server, by `SCAN`, which takes minutes
    /// where there are millions, though it keeps no server busy, and has no limit of its own: put one around
    /// it. It was true when the nodes answered.
    ///
    /// Without any prefix, whatever else is kept on the servers as a string looks like a lock. Nodes that fail
    /// are part of the answer, as is one older than Redis 6.0, whose `SCAN` knows no types.
    ///
    /// # Cancel safety
    ///
    /// The call may be dropped at any time.
    pub async fn list(&self, prefix: impl AsRef<[u8]>, max: usize) -> Listing {
        survey::list(&self.engine, prefix.as_ref(), max).await
    }

    /// Asks each node what it is, and for a lock on a name that nobody else knows, which it gets back at once: for
    /// readiness probes ([`CheckReport::is_available`]) and for operators, who see in its
    /// [table](CheckReport#impl-Display-for-CheckReport) what is the matter and what to do about it.
    ///
    /// It takes as long as the slowest node, which has the node timeout, or the connect timeout if it has never answered,
    /// and a moment more for the releases. The name is the lock's prefix, `lock-check:` and a UUID; where its release does
    /// not arrive, its key lives for 5 s. To see more than the time of a server, the user needs the right to call `INFO`.
    ///
    /// ```
    /// # use lock_core::Redlock;
    /// # use lock_testkit::MemoryNode;
    /// # futures::executor::block_on(async {
    /// # let locks = Redlock::new(MemoryNode::several(3))?;
    /// let report = locks.check().await;
    /// assert!(report.is_available());
    /// println!("{report}");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call may be dropped at any time. What it has set is released in the background.
    pub async fn check(&self) -> CheckReport {
        check::check(&self.engine).await
    }

    /// Says that no lock was acquired yet which a node could have forgotten, for the very first use of a
    /// [restart guard](RestartGuard): else every node is in quarantine at first. To be called by hand, before anything
    /// else: an acquire or a [`check`](Self::check) makes nodes begin their quarantine. NEVER call it where processes
    /// start, since nodes that have all forgotten their locks would be believed. It does nothing if any node has a guard,
    /// since the others have forgotten theirs then. Returns how many nodes have got a guard by this.
    ///
    /// # Errors
    ///
    /// [`BootstrapError::NoGuard`] for a lock without a restart guard, [`BootstrapError::Unavailable`] if a node has not
    /// answered: one that got no guard then has to go through a quarantine.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may have set the guard of some nodes.
    pub async fn bootstrap(&self) -> Result<usize, BootstrapError> {
        guard::bootstrap(&self.engine).await
    }

    /// Deletes the lock's key on all nodes, REGARDLESS OF ITS HOLDER. Returns whether there was a key.
    /// For operators, when the holder is known to be gone and the ttl is too long to wait for.
    ///
    /// A holder that is alive relies on its lock until it extends it or its validity ends, so two
    /// holders may work at the same time. A key of another type is not a lock, and stays.
    ///
    /// # Errors
    ///
    /// [`ForceReleaseError::Invalid`] if the resource is empty or too long; nothing was sent.
    /// [`ForceReleaseError::Unavailable`] if the lock is now free at too few nodes.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have deleted the keys.
    pub async fn force_release(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<bool, ForceReleaseError> {
        survey::force_release(&self.engine, resource.as_ref()).await
    }

    /// Makes a guard of a [`Lease`], which another guard became here or in another process. This
    /// extends the lock to its ttl, so it is certain that it is still held.
    ///
    /// A lease can be resumed once: each node exchanges its token for a new one, that of the guard. Of
    /// several that resume one lease at the same moment, at most one gets a guard, and perhaps none; for
    /// the others it is lost.
    ///
    /// The new guard is extended automatically if this lock does so by default.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Lost`] if the lock is no longer held by the lease,
    /// [`Unavailable`](ResumeError::Unavailable) if too few nodes answered, with a lease to try again in
    /// place of this one, [`Token`](ResumeError::Token) or [`Invalid`](ResumeError::Invalid)
    /// for a lease that is not one of a Redlock, [`ShutDown`](ResumeError::ShutDown) after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// After a dropped call the nodes get the old token back in the background, and the lease can be
    /// resumed again. Until they have it, and where they do not answer, it may be called lost. The lock may
    /// have been extended.
    pub async fn resume(&self, lease: &Lease) -> Result<LockGuard, ResumeError> {
        held::resume(&self.engine, lease).await
    }

    /// Waits for the releases that are under way, and changes nothing else: those of guards that were
    /// dropped and of attempts that failed, up to the answer of each node, and those that are owed to
    /// nodes that did not answer. For programs that are frozen or ended after they have done their work,
    /// such as functions that a platform stops between two calls. It waits for at most `within`.
    ///
    /// # Errors
    ///
    /// [`FlushError`]: some releases were not answered in that time. They go on in the background.
    ///
    /// # Cancel safety
    ///
    /// The call may be dropped at any time.
    pub async fn flush(&self, within: Duration) -> Result<(), FlushError> {
        shutdown::flush(&self.engine, within).await
    }

    /// Ends this lock and its clones: every lock that is held is released at all nodes, and from now on
    /// acquiring fails with [`AcquireError::ShutDown`]. For the end of a program, so that others need
    /// not wait for a ttl. It waits for 5 s at most.
    ///
    /// Bodies come first: a lock whose body runs, that of
    /// [`with_lock`](crate::DistributedLockExt::with_lock) or of a [tick](crate::tick), is kept until the
    /// body has ended. After eight tenths of the time, bodies of `with_lock` are dropped
    /// ([`Loss::ShutDown`](crate::Loss::ShutDown)), and their locks released then. A body that does not
    /// end even so, since it blocks its thread, keeps its lock.
    ///
    /// A plain guard is no longer valid from the call on, and [`lost`](LockGuard::lost) ends. If somebody
    /// waits for that, the lock is released a tenth of the time later, so that there is a moment to
    /// react; otherwise at once. Calls that wait for a lock end at their next attempt. A lock that was
    /// handed over as a [`Lease`] is not held here, and stays.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`]: some locks could not be released for certain in that time.
    ///
    /// # Cancel safety
    ///
    /// If the call is dropped, the releases that were begun go on in the background. It can be called
    /// again.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.shutdown_within(Duration::from_secs(5)).await
    }

    /// Ends this lock and its clones, as [`shutdown`](Self::shutdown) does, and waits for at most
    /// `within`.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`]: some locks could not be released for certain in that time.
    ///
    /// # Cancel safety
    ///
    /// If the call is dropped, the releases that were begun go on in the background. It can be called
    /// again.
    pub async fn shutdown_within(&self, within: Duration) -> Result<(), ShutdownError> {
        shutdown::shutdown(&self.engine, within).await
    }

    /// The nodes, in the configured order.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter().map(|node| &**node)
    }
}

impl<N: RedisNode + ?Sized> RedlockBuilder<N> {
    /// Checks the settings and makes the lock. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the value that cannot work.
    pub fn build(self) -> Result<Redlock<N>, BuildError> {
        let (engine, nodes) = self.checked()?;
        Ok(Redlock {
            engine: Arc::new(engine),
            nodes: nodes.into(),
        })
    }
}

#[async_trait]
impl<N: RedisNode + ?Sized> DistributedLock for Redlock<N> {
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        match several::acquire(&self.engine, request, false).await {
            Err(AcquireError::Contended(_)) => Ok(None),
            result => result.map(Some),
        }
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        several::acquire(&self.engine, request, true).await
    }
}

impl<N: RedisNode> From<Redlock<N>> for Redlock {
    fn from(redlock: Redlock<N>) -> Self {
        let nodes = redlock.nodes.iter();
        Self {
            engine: redlock.engine,
            nodes: nodes.map(|node| Arc::clone(node) as _).collect(),
        }
    }
}

impl<N: ?Sized> Clone for Redlock<N> {
    fn clone(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
            nodes: Arc::clone(&self.nodes),
        }
    }
}

impl<N: ?Sized> fmt::Debug for Redlock<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.engine.nodes.labels();
        f.debug_struct("Redlock")
            .field("nodes", &labels.collect::<Vec<_>>())
            .field("quorum", &self.engine.nodes.quorum().needed())
            .finish_non_exhaustive()
    }
}
