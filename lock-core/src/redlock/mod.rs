//! The Redlock algorithm: a lock on a quorum of independent nodes.

mod acquire;
mod acquisition;
mod builder;
mod calls;
mod debts;
mod engine;
mod extend;
mod fanout;
mod held;
mod node;
mod nodes;
pub(crate) mod protocol;
mod registry;
mod release;
mod renew;
mod renewals;
mod settings;
mod several;
mod shutdown;
mod signal;
mod survey;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use builder::RedlockBuilder;

use crate::error::{
    AcquireError, BuildError, ForceReleaseError, InvalidInput, ResumeError, ShutdownError,
};
use crate::guard::LockGuard;
use crate::inspection::Inspection;
use crate::lease::Lease;
use crate::lock::DistributedLock;
use crate::node::RedisNode;
use crate::request::LockRequest;
use engine::Engine;

/// A lock on a quorum of independent Redis servers.
///
/// Cheap to clone; clones share everything.
///
/// `N` is the type of its nodes. `Redlock` alone, as the type of a field or an argument, is
/// `Redlock<dyn RedisNode>`, which hides their type: any `Redlock<N>` becomes one
/// by `into()`, and nodes of several types make one with
/// [`RedlockBuilder::node`].
///
/// # The algorithm
///
/// It is Redlock as [Redis describes it][redlock], with these rules on top: an attempt is decided
/// at the first moment at which its outcome is certain, so that a hung node costs nothing; every
/// node where a key of a failed, late or cancelled attempt may be gets a release behind it; a node
/// that hangs is asked by one attempt at a time; votes that rivals split are sorted out by asking
/// one node first.
///
/// The validity of a lock is counted from before the first command was sent, less an allowance
/// for clocks that run at different rates: `ttl * drift_factor + 2 ms`.
///
/// [redlock]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
pub struct Redlock<N: ?Sized = dyn RedisNode> {
    engine: Arc<Engine>,
    /// The nodes of the engine once more, by their own type, for [`nodes`](Self::nodes).
    nodes: Arc<[Arc<N>]>,
}

impl<N: RedisNode> Redlock<N> {
    /// A lock over these nodes, with all defaults.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: no nodes, too many, or one of them twice.
    pub fn new(nodes: impl IntoIterator<Item = N>) -> Result<Self, BuildError> {
        Self::builder().nodes(nodes).build()
    }
}

impl<N: RedisNode + ?Sized> Redlock<N> {
    /// A lock with settings of your own.
    pub fn builder() -> RedlockBuilder<N> {
        RedlockBuilder::new()
    }

    /// Asks all nodes who holds a lock, and changes nothing. For operators and tests: to know for
    /// certain, acquire it.
    ///
    /// Nodes that fail are part of the answer.
    ///
    /// # Errors
    ///
    /// The resource is empty or too long. Nothing was sent then.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, InvalidInput> {
        survey::inspect(&self.engine, resource.as_ref()).await
    }

    /// Frees a lock WHOEVER HOLDS IT, at all nodes; whether there was a key. For operators, when a
    /// holder is known to be gone and its ttl is too long to wait for.
    ///
    /// A holder that lives believes in its lock until it extends it or its validity ends, so that two
    /// may work at a time. A key of another type is no lock, and stays.
    ///
    /// # Errors
    ///
    /// [`ForceReleaseError`].
    ///
    /// # Cancel safety
    ///
    /// What has been sent takes effect.
    pub async fn force_release(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<bool, ForceReleaseError> {
        survey::force_release(&self.engine, resource.as_ref()).await
    }

    /// Makes a guard of a [`Lease`] that another guard became, here or in another process. The lock
    /// is extended by its ttl for that, so it is certain that it is held still.
    ///
    /// The new guard is extended automatically if this lock does so by default. Two guards of one
    /// lease extend and release the same lock: resume it once.
    ///
    /// # Errors
    ///
    /// [`ResumeError`].
    ///
    /// # Cancel safety
    ///
    /// The lease stands as it was, perhaps extended.
    pub async fn resume(&self, lease: &Lease) -> Result<LockGuard, ResumeError> {
        held::resume(&self.engine, lease).await
    }

    /// Ends this lock and its clones: nothing can be acquired any more
    /// ([`AcquireError::ShutDown`]), and every lock that is held is released at all nodes. For the
    /// end of a program, so that others need not wait for a ttl. It waits for 5 s at most.
    ///
    /// Guards stay as they are, and are not valid any more. Calls that wait for a lock end at their
    /// next attempt. A lock that is handed over is not held here.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`]: some locks could not be released for certain in that time.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, what has been sent goes on in the background. It can be called again.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.shutdown_within(Duration::from_secs(5)).await
    }

    /// The same, but waits for as long as you say.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn shutdown_within(&self, within: Duration) -> Result<(), ShutdownError> {
        shutdown::shutdown(&self.engine, within).await
    }

    /// The nodes, in the configured order.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter().map(|node| &**node)
    }
}

#[async_trait]
impl<N: RedisNode + ?Sized> DistributedLock for Redlock<N> {
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        several::try_acquire(&self.engine, request).await
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        several::acquire(&self.engine, request).await
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
