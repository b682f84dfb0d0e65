//! What a holder has in hand.

mod all;
mod renewed;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{ExtendError, InvalidInput, ReleaseError};
use crate::lease::Lease;
use crate::redlock::protocol::Renewal;
use crate::request::LockRequest;
use crate::runtime::{BoxFuture, Runtime};
use crate::ttl::Ttl;
use all::HeldAll;

/// For how long a lock is extended automatically, unless told otherwise.
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(60 * 60);

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

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its validity ended, and nothing had extended it by then.
    Expired,
    /// It is gone though its validity had not ended: a quorum of nodes answered that it is not
    /// ours.
    NotOurs,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lock's validity ended",
            Self::NotOurs => "the lock is somebody else's, or gone",
        })
    }
}

/// What stands behind a [`LockGuard`]. Only who makes a lock of his own needs it.
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

/// A lock that is held. Dropping the guard releases the lock.
///
/// Dropping starts the release in the background, from any thread, and never blocks; if the
/// runtime has ended by then, the ttl ends the lock. [`release`](Self::release) is the better end,
/// because it waits and can say what came of it.
///
/// The guard is no proof for ever: check [`is_valid`](Self::is_valid) before each step that must
/// not overlap with another holder's.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    held: Arc<dyn HeldLock>,
}

impl LockGuard {
    /// Wraps a lock of another kind.
    pub fn new(held: impl HeldLock) -> Self {
        Self {
            held: Arc::new(held),
        }
    }

    /// Wraps a lock of another kind, and extends it in the background if the request asks for that:
    /// by `ttl`, in a task of its own on the runtime, until the guard is dropped, the lock is
    /// released or lost, or `max_hold` (one hour by default) is over.
    ///
    /// # Errors
    ///
    /// The request's `extend_interval` leaves no time for another try. The lock is
    /// released then, as with a guard that is dropped.
    pub fn renewed(
        held: impl HeldLock,
        request: &LockRequest,
        ttl: Ttl,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<Self, InvalidInput> {
        let guard = Self::new(held);
        if request.get_auto_extend() == Some(true) {
            let ttl = ttl.as_duration();
            let max_hold = request.get_max_hold().unwrap_or(MAX_HOLD);
            let renewal = Renewal::new(ttl, request.get_extend_interval(), max_hold)?;
            let held = Arc::downgrade(&guard.held);
            let task = renewed::extend(held, ttl, renewal, Arc::clone(runtime));
            runtime.spawn(Box::pin(task));
        }
        Ok(guard)
    }

    /// One guard of several, which stands for all: valid while all are, lost when one is. It names
    /// the resource and the token of the first one.
    pub fn all(guards: Vec<Self>) -> Self {
        Self::new(HeldAll::new(guards))
    }

    /// The resource that is locked, without the lock's prefix.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.held.resource()
    }

    /// The random owner value. It does not grow with time, so it is no fencing token.
    #[must_use]
    pub fn token(&self) -> &str {
        self.held.token()
    }

    /// For how long the lock can still be relied on; zero if not at all.
    ///
    /// It is judged from the local monotonic clock alone, so it is right at once after a stall,
    /// before any network answer.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// Whether the lock can still be relied on at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How many nodes hold the lock as far as known. Grants that come after the quorum count too.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.held.votes()
    }

    /// Ends when the lock is lost, whatever the network does: at the earlier of the end of its
    /// validity and a quorum's answer that it is not ours. It never ends for a lock that is
    /// released, so wait for it beside something else.
    ///
    /// The future owns what it needs, so that a task of its own can wait for it. As a timer it may
    /// be late on a busy machine; [`is_valid`](Self::is_valid) never is.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    #[must_use = "a future does nothing unless it is awaited"]
    pub fn lost(&self) -> BoxFuture<'static, Loss> {
        self.held.lost()
    }

    /// Makes data of the lock, for another task or process to go on with, see [`Lease`]. From then on
    /// nobody extends it, and it ends with its ttl unless it is resumed.
    ///
    /// `None` if the lock is not valid any more, or cannot be handed over; it is released then.
    #[must_use = "without the lease nobody can release the lock"]
    pub fn into_lease(self) -> Option<Lease> {
        self.held.hand_over()
    }

    /// Makes the lock live for `ttl` from now on, unless it lives longer already.
    ///
    /// After [`ExtendError::Unavailable`] the old validity still stands. After
    /// [`ExtendError::Lost`] the guard is no longer valid, and nothing revives it.
    ///
    /// # Errors
    ///
    /// [`ExtendError`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have extended the keys; the validity stays the old one.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        self.held.extend(ttl).await
    }

    /// Releases the lock and says what came of it. Idempotent: after a definite answer another
    /// call gives the same answer without asking again. The guard is not valid from the call on.
    ///
    /// With `hold_at_least` the lock stays taken for what is left of that time.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`].
    ///
    /// # Cancel safety
    ///
    /// If the call is dropped, the release goes on in the background.
    pub async fn release(&self) -> Result<(), ReleaseError> {
        self.held.release().await
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.held.release_in_background();
    }
}
