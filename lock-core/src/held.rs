//! A lock that is held, as its guard sees it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{ExtendError, Loss, ReleaseError};
use crate::lease::Lease;
use crate::runtime::BoxFuture;

/// How many nodes granted a lock, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Votes {
    /// The nodes that granted it, as far as known.
    pub granted: usize,
    /// All nodes of the lock.
    pub nodes: usize,
}

impl Votes {
    /// `granted` of `nodes`.
    #[must_use]
    pub fn new(granted: usize, nodes: usize) -> Self {
        Self { granted, nodes }
    }
}

/// What stands behind a [`LockGuard`].
///
/// The numbers are those of the rules on [`DistributedLock`](crate::DistributedLock#rules).
#[async_trait]
pub trait HeldLock: Debug + Send + Sync + 'static {
    /// See [`LockGuard::resource`].
    fn resource(&self) -> &[u8];

    /// See [`LockGuard::token`] and rule L12.
    fn token(&self) -> &str;

    /// See [`LockGuard::remaining`]. Must be judged by a local monotonic clock, without IO, and be
    /// zero from the end of the ttl on (L8) and from the first call to release on (L10).
    fn remaining(&self) -> Duration;

    /// See [`LockGuard::votes`].
    fn votes(&self) -> Votes;

    /// See [`LockGuard::lost`]. Must be armed from the call on, and never ready for a lock that is
    /// released.
    fn lost(&self) -> BoxFuture<'static, Loss>;

    /// See [`LockGuard::into_lease`]. After it, the lock is neither extended nor released by this
    /// guard any more, not even when it is dropped.
    fn hand_over(&self) -> Option<Lease>;

    /// See [`LockGuard::extend`] and rule L9.
    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError>;

    /// See [`LockGuard::release`] and rules L10 and L13. A call that is dropped goes on in the
    /// background.
    async fn release(&self) -> Result<(), ReleaseError>;

    /// Called when the guard is dropped. Starts a release in the background unless the lock is
    /// released already; must not block or panic, on whatever thread, inside a runtime or not, and
    /// neither during a panic nor after the runtime has ended (L11).
    fn release_in_background(&self);
}
