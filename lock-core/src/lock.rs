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
/// Applications hold an `Arc<dyn DistributedLock>` and need not know what is behind it: a
/// [`Redlock`](crate::Redlock) in production, the same over in-process nodes in a unit test. The
/// everyday methods, which take a name where a request is meant, are those of
/// [`DistributedLockExt`].
///
/// ```
/// use std::sync::Arc;
/// use lock_core::{AcquireError, DistributedLock, DistributedLockExt, Redlock};
///
/// /// Returns whether it was this call that sent the report.
/// async fn send_report(locks: Arc<dyn DistributedLock>) -> Result<bool, AcquireError> {
///     let Some(_guard) = locks.try_lock("report").await? else {
///         return Ok(false); // another process is about to send it
///     };
///     // ... send it; dropping the guard releases the lock ...
///     Ok(true)
/// }
/// # use lock_testkit::MemoryNode;
/// # futures::executor::block_on(async {
/// # let locks = Redlock::new(MemoryNode::several(5))?;
/// # let held = locks.lock("report").await?;
/// # assert!(!send_report(Arc::new(locks.clone())).await?);
/// # held.release().await?;
/// # assert!(send_report(Arc::new(locks)).await?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # What a lock guarantees
///
/// At most one guard of a resource is valid at a time, as long as clocks run at about the same
/// rate, storage does not forget the lock, and the holder stops when its guard is no longer
/// [valid](LockGuard::is_valid). Nothing stops a holder that sleeps past its validity.
///
/// # Rules
///
/// Every implementation keeps these rules, and every caller may rely on them; docs and tests refer
/// to them by number. Authors of locks find what they need in [`custom`](crate::custom).
///
/// - **L1** At most one guard of a resource is valid at a time, whether another task, another lock
///   object or another process has the other one.
/// - **L2** Names are bytes, compared byte for byte, and independent of each other.
/// - **L3** A lock is not reentrant: its holder is kept out like everybody else.
/// - **L4** [`try_acquire`](Self::try_acquire) does not wait for a holder. `Ok(None)` means that
///   somebody else holds the lock or competes for it, never that this could not be found out.
/// - **L5** [`acquire`](Self::acquire) takes the lock when it becomes free. It waits as long as
///   `max_wait` allows and no longer, but for the time of one command in which it gives back what it
///   has; its error then says that somebody was in the way, how long it waited and how often it
///   tried. With `max_wait` zero it tries once; with `fail_if_held` it ends as soon as it has met a
///   holder, with `fail_if_unavailable` as soon as it has met an outage.
/// - **L6** Bad input is refused with [`AcquireError::Invalid`], which names the value and the
///   limit, before anything is sent.
/// - **L7** A dropped call leaves nothing behind and disturbs nobody, at whatever moment it is
///   dropped.
/// - **L8** The validity of a guard counts from before the lock was asked for and ends with the
///   ttl at the latest. When the ttl is over the lock is free by itself, and not before the
///   guard is invalid.
/// - **L9** `extend` prolongs a held lock. It never shortens one and never revives one that is
///   lost. A ttl that cannot work changes nothing.
/// - **L10** `release` frees the lock at once, gives the same answer when it is called again, and
///   never touches a successor's lock. From the call on the guard is not valid.
/// - **L11** Dropping a guard releases the lock, on any thread, inside a runtime or not, during
///   a panic too, and does no harm after the runtime has ended.
/// - **L12** Each acquisition has a token of its own. One that asks for a fencing token has a larger one than
///   all before it, or is refused with [`InvalidInput::FencingUnsupported`](crate::InvalidInput).
/// - **L13** With `hold_at_least` the lock stays taken for that long, released or not, and is free
///   afterwards.
/// - **L14** A lock over several nodes is not disturbed by a minority of nodes, however they fail.
///   Without a majority, acquiring fails with an error that lists each node's answer: an outage is
///   never reported as contention, and never as success. The lock works again when a majority is
///   back.
/// - **L15** [`lost`](LockGuard::lost) ends when the lock is lost or somebody else ends it, with the
///   validity at the latest and whatever the network does, and never for a lock that its own guard
///   released in time.
/// - **L16** A request for several resources locks all of them or none, without deadlocks between
///   requests that overlap, and their names are never joined. A lock that takes one resource at a
///   time refuses such a request.
/// - **L17** With `auto_extend` a lock is held for as long as its guard lives, `max_hold` at most,
///   and nothing extends it afterwards.
///
/// # Cancel safety
///
/// Dropping the future of either method gives up (L7). Whatever it has set by then is released in
/// the background.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync {
    /// Tries to acquire the lock, over the network, and does not wait for a holder: `Ok(None)` means
    /// that somebody else holds the lock. The request's `max_wait`, retry policy, `fail_if_held` and
    /// `fail_if_unavailable` have no effect here.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], but never its `Contended`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call gives up, and what it has set is released in the background.
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError>;

    /// Acquires the lock, and waits for it as long as the request's `max_wait` allows. An outage is
    /// waited out likewise, unless the request says
    /// [`fail_if_unavailable`](LockRequest::fail_if_unavailable); the error then says what the last whole
    /// attempt met.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: `Contended` means that somebody else holds the lock, every other variant
    /// that this could not be found out or was not even asked.
    ///
    /// # Cancel safety
    ///
    /// A dropped call gives up, and what it has set is released in the background.
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

/// The everyday methods of a [`DistributedLock`], for every lock: they take a name or a
/// [`LockRequest`].
pub trait DistributedLockExt: DistributedLock {
    /// Tries to acquire the lock and does not wait for a holder: `Ok(None)` means that somebody else
    /// holds the lock. Unlike the `try_lock` of a mutex it asks over the network, so it is async and
    /// can fail.
    ///
    /// ```
    /// # use lock_core::{DistributedLockExt, Redlock};
    /// # use lock_testkit::MemoryNode;
    /// # futures::executor::block_on(async {
    /// let locks = Redlock::new(MemoryNode::several(5))?;
    /// let guard = locks.try_lock("invoice-7").await?.ok_or("held by somebody else")?;
    /// assert!(locks.try_lock("invoice-7").await?.is_none());
    /// # guard.release().await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::Invalid`] for a request that cannot work,
    /// [`Unavailable`](AcquireError::Unavailable) if too few nodes answered,
    /// [`TooSlow`](AcquireError::TooSlow) if they answered too late to rely on the lock,
    /// [`ShutDown`](AcquireError::ShutDown) after a shutdown; never
    /// [`Contended`](AcquireError::Contended).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up: a lock that it has acquired by then is released in the
    /// background. A `select!` that drops it may drop a lock that was just won.
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

    /// Acquires the lock, and waits for it: 10 s by default, see [`LockRequest::max_wait`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{AcquireError, DistributedLockExt, LockRequest, Redlock};
    /// # use lock_testkit::MemoryNode;
    /// # futures::executor::block_on(async {
    /// let locks = Redlock::new(MemoryNode::several(5))?;
    /// let guard = locks.lock("invoice-7").await?;
    ///
    /// let patient = LockRequest::new("invoice-7").max_wait(Duration::from_millis(50));
    /// match locks.lock(patient).await {
    ///     Err(AcquireError::Contended(contended)) => println!("busy: {contended}"),
    ///     other => panic!("the lock is held: {other:?}"),
    /// }
    /// guard.release().await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// The lock is held as long as the guard lives: `let _ = locks.lock("invoice-7").await?` releases it in the
    /// same statement, and by default nothing warns of it. `let _guard = ..` holds it to the end of the block.
    /// See [`LockGuard`].
    ///
    /// # Errors
    ///
    /// [`AcquireError::Contended`] if somebody else held the lock for all of that time,
    /// [`Invalid`](AcquireError::Invalid) for a request that cannot work,
    /// [`Unavailable`](AcquireError::Unavailable) if too few nodes answered,
    /// [`TooSlow`](AcquireError::TooSlow) if they answered too late to rely on the lock, and
    /// [`ShutDown`](AcquireError::ShutDown) after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up: a lock that it has acquired by then is released in the
    /// background. A `select!` that drops it may drop a lock that was just won.
    fn lock<R>(&self, request: R) -> impl Future<Output = Result<LockGuard, AcquireError>> + Send
    where
        R: Into<LockRequest>,
    {
        let request = request.into();
        async move { self.acquire(&request).await }
    }

    /// Runs `body` while the lock is held, and releases the lock when it ends.
    ///
    /// If the lock is lost meanwhile, the body is dropped at its next `await`; a result that it has
    /// returned by then is kept. A panic of the body continues after the release has begun.
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
    /// [`WithLockError`]: the lock was not acquired, and nothing ran; the lock was lost, and the body
    /// was dropped; or the body ended, and then the lock turned out to be lost or could not be
    /// released. An error of the body itself is part of its output.
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
