//! A client of ours that does not what it is told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Command, NodeError, Operation, RedisNode, Reply, Subscription};

/// What can be wrong on our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OurBug {
    /// A lock is taken whether it is free or not.
    TakesAnyway,
    /// A release deletes whatever is there.
    ReleasesAny,
    /// A release deletes nothing, and says that it did.
    ReleasesNothing,
    /// An extension does nothing, and says that it did.
    ExtendsNothing,
}

#[derive(Debug)]
pub(crate) struct BrokenNode {
    node: Arc<dyn RedisNode>,
    bug: OurBug,
}

impl BrokenNode {
    pub(crate) fn new(node: Arc<dyn RedisNode>, bug: OurBug) -> Self {
        Self { node, bug }
    }
}

#[async_trait]
impl RedisNode for BrokenNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let remove = || {
            let key = Arc::from(command.operation().key());
            Command::from(Operation::Remove { key }).with_source()
        };
        match (self.bug, command.operation()) {
            (OurBug::TakesAnyway, Operation::Acquire { .. }) => {
                self.node.execute(&remove(), within).await?;
                self.node.execute(command, within).await
            }
            (OurBug::ReleasesAny, Operation::Release { .. }) => {
                self.node.execute(&remove(), within).await
            }
            (OurBug::ReleasesNothing, Operation::Release { .. }) => Ok(Reply::Int(1)),
            (OurBug::ExtendsNothing, Operation::Extend { entries }) => {
                Ok(Reply::Array(vec![Reply::Int(1); entries.len()]))
            }
            _ => self.node.execute(command, within).await,
        }
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.node.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.node.label()
    }
}
