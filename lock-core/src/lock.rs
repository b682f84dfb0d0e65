//! The trait that applications hold.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{AcquireError, WithLockError};
use crate::guard::LockGuard;
use crate::request::LockRequest;
use crate::scope;

/// Mutual exclusion between processes, by leases.
///
/// Applications hold an `Arc<dyn DistributedLock>` and need not know what is behind it. The
/// everyday forms, which take a `&str`, are in [`DistributedLockExt`].
///
/// # What a lock guarantees
///
/// At most one guard of a resource is valid at a time, as long as clocks run at about the same
/// rate, storage does not forget the lock, and the holder stops when its guard is no longer
/// [valid](LockGuard::is_valid). A holder that sleeps past its validity is not stopped by anybody.
///
/// A lock is not reentrant: who acquires a resource twice waits for himself.
///
/// # Cancel safety
///
/// Dropping the future of either method gives up. Whatever it has set by then is released in the
/// background.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// Acquires the lock if nobody holds it: `Ok(None)` says that somebody else does. It does not
    /// wait for a holder; `max_wait`, the retry policy and `give_up_when_held` of the request have
    /// no meaning here.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], but never its `Contended`.
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError>;

    /// Acquires the lock, and waits for it as long as the request's `max_wait` allows. Outages are
    /// waited out likewise: the error says what the last whole attempt met.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]; `Contended` says that somebody else holds the lock, every other variant
    /// that this could not be found out or was not even asked.
    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError>;
}

#[async_trait]
impl<L: DistributedLock + ?Sized> DistributedLock for Arc<L> {
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        (**self).try_acquire(request).await
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        (**self).acquire(request).await
    }
}

/// The everyday forms of a [`DistributedLock`]: they take a name where the trait takes a request.
#[async_trait]
pub trait DistributedLockExt: DistributedLock {
    /// [`try_acquire`](DistributedLock::try_acquire) with a name or a request.
    ///
    /// # Errors
    ///
    /// As there.
    async fn try_lock<R>(&self, request: R) -> Result<Option<LockGuard>, AcquireError>
    where
        R: Into<LockRequest> + Send,
    {
        self.try_acquire(&request.into()).await
    }

    /// [`acquire`](DistributedLock::acquire) with a name or a request.
    ///
    /// # Errors
    ///
    /// As there.
    async fn lock<R>(&self, request: R) -> Result<LockGuard, AcquireError>
    where
        R: Into<LockRequest> + Send,
    {
        self.acquire(&request.into()).await
    }

    /// Runs `body` while the lock is held, and releases the lock when it ends.
    ///
    /// If the lock is lost meanwhile, the body is dropped at its next `await`. A result that it has
    /// by then is kept. A panic of the body goes on after the release has begun.
    ///
    /// ```
    /// # use lock_core::{DistributedLockExt, Redlock};
    /// # use lock_testkit::MemoryNode;
    /// # futures::executor::block_on(async {
    /// let locks = Redlock::new(MemoryNode::several(5))?;
    /// let paid = locks
    ///     .with_lock("invoice-7", async |guard| {
    ///         assert!(guard.is_valid());
    ///         "paid"
    ///     })
    ///     .await?;
    /// assert_eq!(paid, "paid");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WithLockError`]: the lock was not acquired, and nothing ran; it was lost, and the body was
    /// dropped; or the body came to its end, and then the lock turned out to be lost or could not be
    /// released. The body's own error is part of its output.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and then the guard, which releases in the background.
    #[allow(async_fn_in_trait, reason = "it is Send whenever the body is")]
    fn with_lock<R, F, T>(
        &self,
        request: R,
        body: F,
    ) -> impl Future<Output = Result<T, WithLockError<T>>>
    where
        R: Into<LockRequest> + Send,
        F: AsyncFnOnce(&LockGuard) -> T,
    {
        async move {
            let guard = self.acquire(&request.into()).await?;
            scope::run(guard, body).await
        }
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}
