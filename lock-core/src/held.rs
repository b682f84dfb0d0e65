//! A lock that is held, as its guard sees it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{ExtendError, Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::observer::LockId;
use crate::runtime::BoxFuture;

/// How many of a lock's nodes have granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Votes {
    /// The number of nodes that granted it, as far as known.
    pub granted: usize,
    /// The number of all nodes of the lock.
    pub nodes: usize,
}

impl Votes {
    /// `granted` of `nodes`.
    #[must_use]
    pub fn new(granted: usize, nodes: usize) -> Self {
        Self { granted, nodes }
    }
}

/// A lock that this process holds; from [`Redlock::held`](crate::Redlock::held).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldReport {
    /// The resources, without the lock's prefix: one, unless they were locked together.
    pub resources: Vec<Vec<u8>>,
    /// How long ago it was acquired, or resumed from a lease.
    pub age: Duration,
    /// For how long it can still be relied on.
    pub remaining: Duration,
    /// How many nodes have granted it.
    pub votes: Votes,
    /// Who holds it, in the words that others see: [`RedlockBuilder::owner`](crate::RedlockBuilder::owner).
    pub owner: Option<String>,
    /// Its fencing token, if it has one.
    pub fencing_token: Option<FencingToken>,
    /// Names the acquisition in logs and events.
    pub lock: LockId,
    /// Whether it is extended automatically.
    pub is_auto_extended: bool,
}

/// What stands behind a [`LockGuard`](crate::LockGuard).
///
/// The numbers are those of the rules on [`DistributedLock`](crate::DistributedLock#rules).
#[async_trait]
pub trait HeldLock: Debug + Send + Sync + 'static {
    /// See [`LockGuard::resource`](crate::LockGuard::resource).
    fn resource(&self) -> &[u8];

    /// See [`LockGuard::token`](crate::LockGuard::token) and rule L12.
    fn token(&self) -> &str;

    /// See [`LockGuard::fencing_token`](crate::LockGuard::fencing_token). A lock without fencing tokens
    /// answers `None`, and refuses requests for one: [`custom::validate`](crate::custom::validate) does.
    fn fencing_token(&self) -> Option<FencingToken>;

    /// See [`LockGuard::remaining`](crate::LockGuard::remaining). Must be judged by a local monotonic clock, without IO, and be
    /// zero from the end of the ttl on (L8) and from the first call of release on (L10).
    fn remaining(&self) -> Duration;

    /// See [`LockGuard::votes`](crate::LockGuard::votes).
    fn votes(&self) -> Votes;

    /// See [`LockGuard::lost`](crate::LockGuard::lost). Counts from the call, not from the first poll, and is never ready for
    /// a lock that is released.
    fn lost(&self) -> BoxFuture<'static, Loss>;

    /// See [`LockGuard::into_lease`](crate::LockGuard::into_lease). After it, the lock is neither extended nor released by this
    /// guard any more, not even when it is dropped.
    fn hand_over(&self) -> Option<Lease>;

    /// See [`LockGuard::extend`](crate::LockGuard::extend) and rule L9.
    ///
    /// # Errors
    ///
    /// [`ExtendError`].
    ///
    /// # Cancel safety
    ///
    /// After a dropped call the validity is the old one.
    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError>;

    /// See [`LockGuard::release`](crate::LockGuard::release) and rules L10 and L13.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`].
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped goes on in the background.
    async fn release(&self) -> Result<(), ReleaseError>;

    /// Called with `true` when a body begins that is not to run without the lock, such as that of
    /// [`with_lock`](crate::DistributedLockExt::with_lock), and with `false` when it has ended or was
    /// dropped. A lock that can be shut down waits for it; others have nothing to do.
    fn set_scoped(&self, is_scoped: bool);

    /// Called when the guard is dropped. Starts a release in the background unless the lock has been
    /// released. Must not block or panic, on any thread, inside a runtime or not, neither during a
    /// panic nor after the runtime has ended (L11).
    fn release_in_background(&self);
}
