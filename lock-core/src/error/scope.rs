//! Errors of `with_lock`.

use std::fmt;

use super::{AcquireError, Loss, ReleaseError};

/// Why [`with_lock`](crate::DistributedLockExt::with_lock) failed. `T` is what the body returns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WithLockError<T> {
    /// The lock was not acquired. The body never ran.
    Acquire(AcquireError),
    /// The lock was lost, and the body was dropped before it ended.
    Lost(Loss),
    /// The body ended. Then the lock turned out to be lost ([`ReleaseError::NotHeld`]), so that
    /// another holder may have worked at the same time, or it could not be released for certain.
    NotReleased {
        /// What the body returned.
        output: T,
        /// Why the release failed.
        error: ReleaseError,
    },
}

impl<T> WithLockError<T> {
    /// Returns what the body returned, if it ended.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::NotReleased { output, .. } => Some(output),
            Self::Acquire(_) | Self::Lost(_) => None,
        }
    }
}

impl<T> From<AcquireError> for WithLockError<T> {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl<T> fmt::Display for WithLockError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(error) => error.fmt(f),
            Self::Lost(loss) => write!(f, "stopped halfway: {loss}"),
            Self::NotReleased { error, .. } => write!(f, "done, but {error}"),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for WithLockError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // What they display is displayed here already.
            Self::Acquire(error) => error.source(),
            Self::NotReleased { error, .. } => error.source(),
            Self::Lost(_) => None,
        }
    }
}
