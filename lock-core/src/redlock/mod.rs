//! The Redlock algorithm: a lock on a quorum of independent nodes.

mod acquire;
mod attempt;
mod builder;
mod calls;
mod collector;
mod engine;
mod extend;
mod held;
mod member;
mod pending;
mod protocol;
mod release;
mod settings;
mod trying;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use builder::RedlockBuilder;

use crate::error::{AcquireError, BuildError};
use crate::guard::LockGuard;
use crate::lock::DistributedLock;
use crate::node::RedisNode;
use crate::request::LockRequest;
use engine::Engine;

/// A lock on a quorum of independent Redis servers.
///
/// Cheap to clone; clones share what is known of the nodes. Nodes of different types work in one
/// lock as `Arc<dyn RedisNode>`.
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
pub struct Redlock<N> {
    engine: Arc<Engine>,
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

    /// A lock with settings of your own.
    pub fn builder() -> RedlockBuilder<N> {
        RedlockBuilder::new()
    }

    /// The nodes, in the configured order.
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter().map(|node| &**node)
    }
}

#[async_trait]
impl<N: RedisNode> DistributedLock for Redlock<N> {
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        acquire::try_acquire(&self.engine, request).await
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        acquire::acquire(&self.engine, request).await
    }
}

impl<N> Clone for Redlock<N> {
    fn clone(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
            nodes: Arc::clone(&self.nodes),
        }
    }
}

impl<N> fmt::Debug for Redlock<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.engine.members.iter().map(|member| &member.label);
        f.debug_struct("Redlock")
            .field("nodes", &labels.collect::<Vec<_>>())
            .field("quorum", &self.engine.settings.quorum.needed())
            .finish_non_exhaustive()
    }
}
