//! What a holder has in hand.

mod joined;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::display::Name;
use crate::error::{ExtendError, Loss, ReleaseError};
use crate::held::{HeldLock, Votes};
use crate::lease::Lease;
use crate::runtime::BoxFuture;

pub use joined::join;

/// A lock that is held. Dropping the guard releases the lock.
///
/// Dropping starts the release in the background, from any thread, and never blocks; if the
/// runtime has ended by then, the ttl ends the lock. [`release`](Self::release) is the better end,
/// because it waits and can say what came of it.
///
/// The guard is no proof for ever: check [`is_valid`](Self::is_valid) before each step that must
/// not overlap with another holder's.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    held: Arc<dyn HeldLock>,
}

impl LockGuard {
    /// See [`custom::guard`](crate::custom::guard).
    pub(crate) fn new(held: impl HeldLock) -> Self {
        Self {
            held: Arc::new(held),
        }
    }

    /// What stands behind the guard, for a task that must not keep it alive.
    pub(crate) fn downgrade(&self) -> Weak<dyn HeldLock> {
        Arc::downgrade(&self.held)
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

/// Without the token, by which anybody could release the lock.
impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("resource", &Name(self.resource()))
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.held.release_in_background();
    }
}
