//! Why a held lock was not extended or released, and how one is lost.

use std::fmt;

use super::{InvalidInput, NodeReports};

/// Why a lock was not extended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The ttl cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The lock is no longer held: its validity ended, it was released, or a quorum of nodes
    /// answered that it is not ours.
    #[error("the lock is no longer held")]
    Lost,
    /// Too few nodes answered. The lock is still held for what remains of its validity, and can be
    /// extended again.
    #[error("too few nodes answered, {quorum} are needed: {nodes}")]
    Unavailable {
        /// How many nodes must answer yes.
        quorum: usize,
        /// The answers of all nodes.
        nodes: NodeReports,
    },
}

/// Why a release cannot confirm that the lock was held to the end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock was no longer held when it was released: it had expired, or somebody deleted it. A
    /// holder that has it now keeps it.
    #[error("the lock was no longer held")]
    NotHeld,
    /// Too few nodes answered in time, which is ten node timeouts, at most a second unless one is longer.
    /// The release goes on in the background until they answer or the ttl ends: there is nothing to do. It
    /// can also be called again.
    #[error(
        "too few nodes answered, {quorum} are needed, and the release goes on in the background: {nodes}"
    )]
    Unavailable {
        /// How many nodes must answer.
        quorum: usize,
        /// The answers of all nodes.
        nodes: NodeReports,
    },
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its validity ended before anything extended it.
    Expired,
    /// A quorum of nodes answered, before the validity ended, that the lock is not ours any more:
    /// it was deleted there, or somebody else holds it.
    Revoked,
    /// The lock is about to be released by [`Redlock::shutdown`](crate::Redlock::shutdown).
    ShutDown,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lock's validity ended",
            Self::Revoked => "the lock was deleted or somebody else holds it",
            Self::ShutDown => "the lock was shut down",
        })
    }
}
