//! What a shutdown could not do.

use std::time::Duration;

use super::ReleaseError;
use crate::display::Ms;

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
