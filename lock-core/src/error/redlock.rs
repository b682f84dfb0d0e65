//! Errors of what only a Redlock can do: resuming a lease, a forced release, a shutdown.

use std::time::Duration;

use super::{InvalidInput, NodeReports, ReleaseError};
use crate::display::Ms;
use crate::lease::Lease;

/// Why a lease was not resumed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The lease is not one of a Redlock: its token is not a UUID. Nothing was sent.
    #[error("the lease's token is not a UUID")]
    Token,
    /// The lease's resource or ttl cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The lease's lock is no longer held by it: it expired, was released, or the lease was resumed
    /// elsewhere.
    #[error("the lease's lock is no longer held")]
    Lost,
    /// Too few nodes answered. Some may have exchanged the token, so this lease takes the place of the
    /// one that was resumed: it can be tried as long as it lasts.
    #[error("too few nodes answered, {quorum} are needed: {nodes}")]
    Unavailable {
        /// How many nodes must answer yes.
        quorum: usize,
        /// The answers of all nodes.
        nodes: NodeReports,
        /// The lease to try again.
        lease: Box<Lease>,
    },
    /// The lock was shut down, see [`Redlock::shutdown`](crate::Redlock::shutdown).
    #[error("the lock was shut down, its leases can no longer be resumed")]
    ShutDown,
}

/// Why a forced release has perhaps not freed a lock.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForceReleaseError {
    /// The resource is empty or too long. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The lock is free at too few nodes: the others did not answer, or have a key of another type,
    /// which is not a lock and stays.
    #[error("the lock is free at too few nodes, {quorum} are needed: {nodes}")]
    Unavailable {
        /// At how many nodes it must be free.
        quorum: usize,
        /// The answers of all nodes.
        nodes: NodeReports,
    },
}

/// Why nodes have perhaps no restart guard yet.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The lock was built without a restart guard. Nothing was sent.
    #[error("the lock has no restart guard: RedlockBuilder::restart_guard")]
    NoGuard,
    /// Some node has not answered, so that it may have no guard.
    #[error("not all nodes have a restart guard: {nodes}")]
    Unavailable {
        /// The answers of all nodes.
        nodes: NodeReports,
    },
}

/// Releases that were not answered while they were waited for. They go on in the background.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{unreleased} locks were not released at all nodes within {}", Ms(*within))]
#[non_exhaustive]
pub struct FlushError {
    /// How many locks.
    pub unreleased: usize,
    /// For how long they were waited for.
    pub within: Duration,
}

/// Some locks that a shutdown could not release for certain, or whose bodies did not end in time. They
/// end with their ttl at the latest.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{unreleased} locks were not released within {}", Ms(*within))]
#[non_exhaustive]
pub struct ShutdownError {
    /// How many locks.
    pub unreleased: usize,
    /// For how long the shutdown tried.
    pub within: Duration,
    /// Why the first of them was not released, if its release ended in that time.
    #[source]
    pub source: Option<ReleaseError>,
}
