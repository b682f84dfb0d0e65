//! How the nodes of a lock are: what readiness probes and operators see.

mod finding;
mod server;
mod table;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use finding::{Finding, Severity};
pub(crate) use server::Described;
pub use server::{ClockOffset, Role, ServerInfo};

use crate::node::NodeError;

/// How the nodes of a lock are; from [`Redlock::check`](crate::Redlock::check).
///
/// `Display` renders it as a table, with each finding and what to do about it below.
#[derive(Clone, Debug)]
pub struct CheckReport {
    quorum: usize,
    nodes: Vec<NodeCheck>,
    findings: Vec<Finding>,
}

/// How one node is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeCheck {
    /// The node's label.
    pub label: Arc<str>,
    /// Whether the node has granted a lock, or why it has not.
    pub lock: Result<(), NodeError>,
    /// What the server told of itself, or why it told nothing.
    pub server: Result<ServerInfo, NodeError>,
    /// How long the server's answer took, with the connect if there was one.
    pub round_trip: Option<Duration>,
    /// Since when the commands of locks fail at this node, by the wall clock of this machine. `None` for a node that
    /// serves; noticed by the commands of this [`Redlock`](crate::Redlock) alone.
    pub down_since: Option<SystemTime>,
    /// What is the matter with it, the gravest first.
    pub findings: Vec<Finding>,
}

/// What the parts of a check came to at one node.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) label: Arc<str>,
    pub(crate) lock: Probed,
    pub(crate) server: Result<ServerInfo, NodeError>,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) down_since: Option<SystemTime>,
    /// How long the node may take for a command of a lock.
    pub(crate) node_timeout: Duration,
    pub(crate) guard: GuardUse,
}

/// Who uses a restart guard at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardUse {
    Ours,
    OthersAlone,
    Nobody,
}

/// Whether a node has granted a lock on a name that nobody else knows.
#[derive(Debug)]
pub(crate) enum Probed {
    Granted,
    /// It had the lock that was asked of the node with this label.
    Twin(Arc<str>),
    Failed(NodeError),
}

impl CheckReport {
    /// Makes a report of what each node said, in the configured order.
    pub(crate) fn new(quorum: usize, examined: Vec<Examined>) -> Self {
        let offsets = examined.iter().filter_map(|node| {
            let server = node.server.as_ref().ok()?;
            Some(server.clock_offset)
        });
        let own_clock = finding::own_clock(&offsets.collect::<Vec<_>>());
        let nodes = examined.into_iter();
        Self {
            quorum,
            nodes: nodes.map(|node| node.judged(own_clock.is_some())).collect(),
            findings: own_clock.into_iter().collect(),
        }
    }

    /// Returns whether locks can be acquired at present: whether a quorum of nodes has granted one. A server that
    /// is listed twice counts once.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.working() >= self.quorum
    }

    /// Returns how many nodes have granted a lock.
    #[must_use]
    pub fn working(&self) -> usize {
        self.nodes.iter().filter(|node| node.lock.is_ok()).count()
    }

    /// Returns how many nodes a lock needs.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// The nodes, in the configured order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeCheck] {
        &self.nodes
    }

    /// All findings, those about this machine first, each of the others with the label of its node.
    pub fn findings(&self) -> impl Iterator<Item = (Option<&str>, &Finding)> {
        let own = self.findings.iter().map(|finding| (None, finding));
        own.chain(self.nodes.iter().flat_map(|node| {
            let findings = node.findings.iter();
            findings.map(|finding| (Some(&*node.label), finding))
        }))
    }

    /// Returns how grave the gravest finding is, `None` if there is not any.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        self.findings().map(|(_, finding)| finding.severity()).max()
    }
}

impl Examined {
    /// `is_own_clock` says that the clock of this machine is wrong, so that those of servers are not blamed.
    fn judged(self, is_own_clock: bool) -> NodeCheck {
        let findings = finding::of_node(&self, is_own_clock);
        let lock = match self.lock {
            Probed::Granted => Ok(()),
            Probed::Twin(other) => Err(NodeError::not_sent(format!(
                "it is the same server as {other}"
            ))),
            Probed::Failed(error) => Err(error),
        };
        NodeCheck {
            label: self.label,
            lock,
            server: self.server,
            round_trip: self.round_trip,
            down_since: self.down_since,
            findings,
        }
    }
}

#[cfg(test)]
mod tests;
