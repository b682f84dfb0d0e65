//! The guard of a held lock.

mod joined;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::display::Name;
use crate::error::{ExtendError, Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::held::{HeldLock, Votes};
use crate::lease::Lease;
use crate::runtime::BoxFuture;

pub use joined::join;

/// A lock that is held. Dropping the guard releases the lock.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, Redlock};
/// # use lock_testkit::MemoryNode;
///
/// # futures::executor::block_on(async {
/// let locks = Redlock::new(MemoryNode::several(5))?;
/// let guard = locks.lock("invoice-7").await?;
/// // ... read the invoice ...
/// if guard.remaining() < Duration::from_secs(5) {
///     guard.extend(Duration::from_secs(30)).await?;
/// }
/// if guard.is_valid() {
///     // ... pay ...
/// }
/// guard.release().await?; // says whether the lock was held to the end
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Dropping starts the release in the background, from any thread, and never blocks; if the
/// runtime has ended by then, or nobody drives it (a current-thread runtime of tokio outside of
/// `block_on`), the lock ends with its ttl. [`release`](Self::release) is the better
/// end, because it waits and returns the outcome.
///
/// Bind a guard to a name. `let _ = ..` binds nothing: it drops the guard in the same statement, and what
/// follows runs without the lock. The compiler does not warn of it, nor does clippy by default: its lint
/// `clippy::let_underscore_must_use` does.
///
/// ```
/// # use lock_core::{DistributedLockExt, Redlock};
/// # use lock_testkit::MemoryNode;
/// # futures::executor::block_on(async {
/// # let locks = Redlock::new(MemoryNode::several(5))?;
/// let _ = locks.lock("invoice-7").await?; // WRONG: it is released already
/// let _guard = locks.lock("invoice-8").await?; // held to the end of the block
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// A guard that is dropped within a millisecond of its acquisition is an event at the level `debug`, with a
/// [hint](crate#what-it-logs). [`with_lock`](crate::DistributedLockExt::with_lock) has no guard to drop.
///
/// Holding a guard does not prove that the lock is still valid: check
/// [`is_valid`](Self::is_valid) before each step that must not overlap with another holder's, or let
/// [`with_lock`](crate::DistributedLockExt::with_lock) stop the work when the lock is lost.
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

    /// Says that a body runs that is not to outlive the lock, until the scope is dropped.
    pub(crate) fn scope(&self) -> Scope<'_> {
        self.held.set_scoped(true);
        Scope(&*self.held)
    }

    /// The lock behind the guard, for a task that must not keep it alive.
    pub(crate) fn downgrade(&self) -> Weak<dyn HeldLock> {
        Arc::downgrade(&self.held)
    }

    /// The resource that is locked, without the lock's prefix; the first one, if there are several.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.held.resource()
    }

    /// The value that names the owner: random, with the note of
    /// [`RedlockBuilder::owner`](crate::RedlockBuilder::owner) behind it if there is one. It does not grow
    /// with time, so it is not a fencing token. Anybody who knows it can release the lock.
    #[must_use]
    pub fn token(&self) -> &str {
        self.held.token()
    }

    /// The number of this acquisition, for what the lock protects to compare: see [`FencingToken`]. It stays
    /// the same when the lock is extended.
    ///
    /// `None` unless [`fencing`](crate::LockRequest::fencing) was asked for.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.fencing_token()
    }

    /// Returns for how long the lock can still be relied on: zero once it is lost or released.
    ///
    /// This is judged by the local monotonic clock alone, so it is right even directly after a stall
    /// of the process, before any answer from the network.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// Returns whether the lock can be relied on at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how many nodes hold the lock, as far as known. Grants that come after the quorum count
    /// too.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.held.votes()
    }

    /// Waits until the lock is lost: until its validity ends or a quorum of nodes answers that it is
    /// not ours, whichever comes first and whatever the network does. The future never ends for a
    /// lock that is released, so `select!` it with something else.
    ///
    /// It borrows nothing, so another task can wait for it. Like any timer it may be late on a busy
    /// machine; [`is_valid`](Self::is_valid) never is.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    #[must_use = "a future does nothing unless it is awaited"]
    pub fn lost(&self) -> BoxFuture<'static, Loss> {
        self.held.lost()
    }

    /// Turns the held lock into data, with which another task or process can go on: see [`Lease`].
    /// From then on nothing extends the lock, and it ends with its ttl unless the lease is resumed.
    ///
    /// Returns `None` if the lock is no longer valid or cannot be handed over; it is released then.
    #[must_use = "without the lease nobody can release the lock"]
    pub fn into_lease(self) -> Option<Lease> {
        self.held.hand_over()
    }

    /// Extends the lock, so that it lives for `ttl` from now on unless it lives longer already.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Invalid`] for a ttl that cannot work; nothing was sent.
    /// [`ExtendError::Unavailable`] if too few nodes answered; the old validity still stands.
    /// [`ExtendError::Lost`] if the lock is no longer held; nothing revives it.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have extended the keys; the guard keeps the old validity.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        self.held.extend(ttl).await
    }

    /// Releases the lock and returns the outcome. From the call on the guard is not valid. Once the
    /// outcome is definite, another call returns the same one without asking the nodes again.
    ///
    /// With `hold_at_least` the lock stays taken for what is left of that time.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::NotHeld`] if the lock was lost before it was released.
    /// [`ReleaseError::Unavailable`] if too few nodes answered, within ten node timeouts (a second at most,
    /// unless one is longer); the release goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// If the call is dropped, the release goes on in the background.
    pub async fn release(&self) -> Result<(), ReleaseError> {
        self.held.release().await
    }
}

/// A body that is not to outlive its lock.
pub(crate) struct Scope<'a>(&'a dyn HeldLock);

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.0.set_scoped(false);
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
