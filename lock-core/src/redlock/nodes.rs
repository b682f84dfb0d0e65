//! The nodes of one lock, and the settings that say how they are asked.

use std::sync::Arc;
use std::time::Duration;

use super::node::LockNode;
use super::protocol::{Quorum, Timing};
use super::settings::Settings;

/// The nodes of one lock and its settings.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) all: Box<[LockNode]>,
    pub(crate) settings: Settings,
}

impl Nodes {
    pub(crate) fn quorum(&self) -> Quorum {
        self.settings.quorum
    }

    /// The labels of all nodes, in the configured order.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Arc<str>> {
        self.all.iter().map(|node| Arc::clone(&node.label))
    }

    /// How long a node may take where one that has answered before may take `node_timeout`.
    pub(crate) fn within(&self, node: usize, node_timeout: Duration) -> Duration {
        self.all[node].within(node_timeout, self.settings.connect_timeout)
    }

    /// How long a node may take for a command of a lock. More than the validity is of no use.
    pub(crate) fn within_of(&self, node: usize, timing: Timing) -> Duration {
        self.within(node, timing.node_timeout).min(timing.validity)
    }

    /// The node did not answer in time.
    pub(crate) fn overdue(&self, node: usize, within: Duration) {
        self.all[node].overdue(within);
    }
}
