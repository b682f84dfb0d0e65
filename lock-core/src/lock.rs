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
/// # Rules
///
/// Whoever implements a lock keeps these rules, and whoever uses one may rely on them; the numbers
/// are used by docs and tests. What stands behind a guard is a [`HeldLock`](crate::HeldLock).
///
/// - **L1** At most one guard of a resource is valid at a time, whoever has it: another task,
///   another lock object or another process.
/// - **L2** Names are bytes, compared byte for byte, and independent of each other.
/// - **L3** A lock is not reentrant: its holder is kept out like anybody else.
/// - **L4** [`try_acquire`](Self::try_acquire) does not wait for a holder. `Ok(None)` means that
///   somebody else holds the lock or competes for it, never that this could not be found out.
/// - **L5** [`acquire`](Self::acquire) takes the lock when it becomes free, waits as long as
///   `max_wait` allows and no longer, and then says that somebody was in the way, how long it
///   waited and how often it tried. With `max_wait` zero it tries once; with `fail_if_held`
///   it ends as soon as it has met a holder.
/// - **L6** Bad input is refused with [`AcquireError::Invalid`], which names the value and the
///   limit, before anything is sent.
/// - **L7** A dropped call leaves nothing behind and disturbs nobody, at whatever moment it is
///   dropped.
/// - **L8** The validity of a guard counts from before the lock was asked for and ends with the
///   ttl at the latest. When the ttl is over the lock is free by itself, and not before the
///   guard is invalid.
/// - **L9** `extend` prolongs a held lock, never shortens one and never revives one that is lost.
///   A ttl that cannot work changes nothing.
/// - **L10** `release` frees the lock at once, gives the same answer when it is called again, and
///   never touches a successor's lock. From the call on the guard is not valid.
/// - **L11** Dropping a guard releases the lock, on any thread, inside a runtime or not, during
///   a panic too, and does no harm after the runtime has ended.
/// - **L12** Each acquisition has a token of its own.
/// - **L13** With `hold_at_least` the lock stays taken for that long, released or not, and is free
///   afterwards.
/// - **L14** Of a lock over several nodes, a minority of nodes that fail in whatever way does no
///   harm. Without a majority it is an outage, never contention nor a lock, whose error says
///   of each node what it answered; and it works again when a majority is back.
/// - **L15** [`lost`](LockGuard::lost) ends when the lock is lost, with the validity at the latest
///   and whatever the network does, and never for a lock that is released.
/// - **L16** Of several resources in one request all are locked or none is, without deadlocks
///   between requests that cross, and their names are never joined. A lock that takes one resource
///   at a time refuses such a request.
/// - **L17** With `auto_extend` a lock is held for as long as its guard lives, `max_hold` at most,
///   and nothing extends it afterwards.
///
/// # Cancel safety
///
/// Dropping the future of either method gives up (L7). Whatever it has set by then is released in
/// the background.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync {
    /// Acquires the lock if nobody holds it: `Ok(None)` says that somebody else does. It does not
    /// wait for a holder; `max_wait`, the retry policy and `fail_if_held` of the request have
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

/// Forwards to the lock inside.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[async_trait]
        impl<L: DistributedLock + ?Sized> DistributedLock for $pointer {
            async fn try_acquire(
                &self,
                request: &LockRequest,
            ) -> Result<Option<LockGuard>, AcquireError> {
                (**self).try_acquire(request).await
            }

            async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
                (**self).acquire(request).await
            }
        }
    )*};
}

forward!(&L, Box<L>, Arc<L>);

/// The everyday forms of a [`DistributedLock`]: they take a name where the trait takes a request.
pub trait DistributedLockExt: DistributedLock {
    /// [`try_acquire`](DistributedLock::try_acquire) with a name or a request.
    ///
    /// # Errors
    ///
    /// As there.
    fn try_lock<R>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<Option<LockGuard>, AcquireError>> + Send
    where
        R: Into<LockRequest>,
    {
        let request = request.into();
        async move { self.try_acquire(&request).await }
    }

    /// [`acquire`](DistributedLock::acquire) with a name or a request.
    ///
    /// # Errors
    ///
    /// As there.
    fn lock<R>(&self, request: R) -> impl Future<Output = Result<LockGuard, AcquireError>> + Send
    where
        R: Into<LockRequest>,
    {
        let request = request.into();
        async move { self.acquire(&request).await }
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
        R: Into<LockRequest>,
        F: AsyncFnOnce(&LockGuard) -> T,
    {
        let request = request.into();
        async move {
            let guard = self.acquire(&request).await?;
            scope::run(guard, body).await
        }
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}
