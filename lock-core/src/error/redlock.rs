//! Errors of what only a Redlock can do: resuming a lease, a forced release, a shutdown.

use std::time::Duration;

use super::{ExtendError, InvalidInput, NodeReports, ReleaseError};
use crate::display::Ms;

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
    /// The lease's lock is no longer held: it expired or was released.
    #[error("the lease's lock is no longer held")]
    Lost,
    /// Too few nodes answered. The lease is unchanged, and can be resumed as long as it lasts.
    #[error("too few nodes answered, {quorum} are needed: {nodes}")]
    Unavailable {
        /// How many nodes must answer yes.
        quorum: usize,
        /// The answers of all nodes.
        nodes: NodeReports,
    },
    /// The lock was shut down, see [`Redlock::shutdown`](crate::Redlock::shutdown).
    #[error("the lock was shut down, its leases can no longer be resumed")]
    ShutDown,
}

impl From<ExtendError> for ResumeError {
    fn from(error: ExtendError) -> Self {
        match error {
            ExtendError::Invalid(invalid) => Self::Invalid(invalid),
            ExtendError::Lost => Self::Lost,
            ExtendError::Unavailable { quorum, nodes } => Self::Unavailable { quorum, nodes },
        }
    }
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
