//! What only a Redlock can do, and why it did not: resuming a lease, a forced release, a shutdown.

use std::time::Duration;

use super::{ExtendError, InvalidInput, NodeReports, ReleaseError};
use crate::display::Ms;

/// Why a lease was not resumed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The lease is not one of a Redlock: its token is no UUID. Nothing was sent.
    #[error("the lease's token is no UUID")]
    Token,
    /// The lease's resource or ttl cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The lock is no longer held by this lease: it expired, or was released.
    #[error("the lease's lock is no longer held")]
    Lost,
    /// Too few nodes answered. The lease stands as it was, and can be resumed again while its time
    /// lasts.
    #[error("too few nodes answered, {quorum} are needed: {nodes}")]
    Unavailable {
        /// How many nodes must answer yes.
        quorum: usize,
        /// What each node said.
        nodes: NodeReports,
    },
    /// The lock was shut down, see [`Redlock::shutdown`](crate::Redlock::shutdown).
    #[error("the lock was shut down, nothing can be resumed any more")]
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

/// Why a forced release may not have freed a lock.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForceReleaseError {
    /// The resource cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Too few nodes deleted the key, or had none. A key of another type is no lock, and stays.
    #[error("too few nodes are free now, {quorum} are needed: {nodes}")]
    Unavailable {
        /// How many nodes must be free.
        quorum: usize,
        /// What each node said.
        nodes: NodeReports,
    },
}

/// Locks that a shutdown could not release for certain. They end with their ttl at the latest.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{unreleased} locks were not released within {}", Ms(*within))]
#[non_exhaustive]
pub struct ShutdownError {
    /// How many.
    pub unreleased: usize,
    /// How long it was tried.
    pub within: Duration,
    /// What the first of them came to, if it came to anything.
    #[source]
    pub source: Option<ReleaseError>,
}
