//! The tools of a check of a lock.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, select};
use lock_core::runtime::BoxFuture;
use lock_core::{AcquireError, DistributedLock, LockGuard, LockRequest, Runtime};

use super::child::{Again, Part};
use super::harness::{LockBed, LockHarness};
use super::process::Child;
use crate::conformance::failure::chain;
use crate::conformance::{CheckResult, Driver, Failure};

/// The time between two looks at a condition that becomes true by itself.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// How long something may take that should not take long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The lifetime of locks that are not to end during a check.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// How often a lock is asked again whose nodes did not answer: on a busy machine this may happen
/// although they are healthy.
pub(crate) const TRIES: u32 = 20;

/// What a check of a lock works with: a world of its own, and a lock in it.
#[derive(Debug)]
pub struct LockCx {
    bed: Box<dyn LockBed>,
    lock: Arc<dyn DistributedLock>,
    runtime: Arc<dyn Runtime>,
    driver: Arc<dyn Driver>,
    again: Again,
}

impl LockCx {
    pub(crate) async fn start(
        harness: &dyn LockHarness,
        runtime: Arc<dyn Runtime>,
        again: Again,
    ) -> CheckResult<Self> {
        let bed = harness.start().await?;
        let lock = bed.lock().await?;
        Ok(Self {
            bed,
            lock,
            runtime,
            driver: harness.driver(),
            again,
        })
    }

    /// The world, seen from outside.
    pub(crate) fn bed(&self) -> &dyn LockBed {
        &*self.bed
    }

    /// The lock under test.
    pub(crate) fn lock(&self) -> &Arc<dyn DistributedLock> {
        &self.lock
    }

    /// Makes another lock, such as a rival process would have.
    pub(crate) async fn rival(&self) -> CheckResult<Arc<dyn DistributedLock>> {
        self.bed.lock().await
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    pub(crate) fn now(&self) -> Duration {
        self.runtime.now()
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.bed.pass(time).await;
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let [a, b, c, d, ..] = self.runtime.random();
        u64::from(u32::from_le_bytes([a, b, c, d])) % end
    }

    /// Fails unless the future ends within a time so long that only a hang reaches it.
    pub(crate) async fn ends<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CheckResult<T> {
        self.ends_within(PATIENCE, what, future).await
    }

    /// The same for futures that have much to do.
    pub(crate) async fn all_end<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CheckResult<T> {
        self.ends_within(3 * PATIENCE, what, future).await
    }

    async fn ends_within<T>(
        &self,
        limit: Duration,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CheckResult<T> {
        let future = std::pin::pin!(future);
        match select(future, self.runtime.sleep(limit)).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right(_) => Err(Failure::new(
                format!("{what} to end"),
                format!("no end in {} s", limit.as_secs()),
            )),
        }
    }

    /// Looks until a condition holds.
    pub(crate) async fn eventually(&self, what: &str, holds: impl Fn() -> bool) -> CheckResult {
        let start = self.now();
        while !holds() {
            if self.now().saturating_sub(start) > PATIENCE {
                return Err(Failure::new(what, "nothing of it"));
            }
            self.sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until nothing is left of any lock, at nodes without a fault.
    pub(crate) async fn expect_nothing_left(&self) -> CheckResult {
        let start = self.now();
        loop {
            let left = self.bed.leftovers().await?;
            if left.is_empty() {
                return Ok(());
            }
            if self.now().saturating_sub(start) > PATIENCE {
                return Err(Failure::new("nothing to be left", left.join(", ")));
            }
            self.sleep(POLL).await;
        }
    }

    /// Acquires the lock, however long that takes; it fails if the lock stays taken.
    pub(crate) async fn take(
        &self,
        lock: &Arc<dyn DistributedLock>,
        request: LockRequest,
    ) -> CheckResult<LockGuard> {
        let request = request.max_wait(PATIENCE);
        let acquired = self.ends("an acquire", lock.acquire(&request)).await?;
        acquired.map_err(|error| Failure::new("the lock to be acquired", chain(&error)))
    }

    /// Tries to acquire the lock, again after an outage, since none is expected.
    pub(crate) async fn ask(
        &self,
        lock: &Arc<dyn DistributedLock>,
        request: &LockRequest,
    ) -> CheckResult<Option<LockGuard>> {
        let ask = || async { self.ends("a try", lock.try_acquire(request)).await };
        match self.answer(ask).await? {
            Ok(answer) => Ok(answer),
            Err(error) => Err(Failure::new("a guard or `None`", chain(&error))),
        }
    }

    /// Tries to acquire a lock that was released at this moment: not every node may have heard of it,
    /// and a node that is busy may make the others too few.
    pub(crate) async fn ask_for_freed(
        &self,
        lock: &Arc<dyn DistributedLock>,
        request: &LockRequest,
    ) -> CheckResult<LockGuard> {
        for _ in 0..TRIES {
            if let Some(guard) = self.ask(lock, request).await? {
                return Ok(guard);
            }
            self.sleep(POLL).await;
        }
        let found = format!("`None`, {TRIES} times");
        Err(Failure::new("the lock, which was released", found))
    }

    /// Acquires the lock, waiting as the request says, again after an outage.
    pub(crate) async fn wait(
        &self,
        lock: &Arc<dyn DistributedLock>,
        request: &LockRequest,
    ) -> CheckResult<Result<LockGuard, AcquireError>> {
        let ask = || async { self.ends("an acquire", lock.acquire(request)).await };
        self.answer(ask).await
    }

    /// Asks until the answer is not an outage, at most [`TRIES`] times.
    pub(crate) async fn answer<T, F>(
        &self,
        ask: impl Fn() -> F,
    ) -> CheckResult<Result<T, AcquireError>>
    where
        F: Future<Output = CheckResult<Result<T, AcquireError>>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match ask().await? {
                Err(AcquireError::Unavailable(_) | AcquireError::TooSlow(_)) if tries < TRIES => {
                    self.sleep(POLL * 10).await;
                }
                result => return Ok(result),
            }
        }
    }

    /// Fails unless the lock is taken.
    pub(crate) async fn expect_taken(
        &self,
        lock: &Arc<dyn DistributedLock>,
        request: &LockRequest,
    ) -> CheckResult {
        match self.ask(lock, request).await? {
            None => Ok(()),
            Some(guard) => Err(Failure::new(
                "the lock to be taken",
                format!("a second guard: {guard:?}"),
            )),
        }
    }

    /// Runs a future as a task of its own.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = CheckResult<T>> + Send + 'static,
    ) -> Task<T> {
        let (sender, receiver) = oneshot::channel();
        self.runtime.spawn(Box::pin(async move {
            // A check that has failed meanwhile does not receive it.
            drop(sender.send(task.await));
        }));
        Task(receiver)
    }

    /// Runs a future on a runtime of its own, which has ended when this returns. It must not wait
    /// for the check's runtime, which stands still meanwhile.
    pub(crate) fn on_another_runtime<T: Send>(
        &self,
        future: impl Future<Output = CheckResult<T>> + Send,
    ) -> CheckResult<T> {
        let mut result = Err(Failure::new("an end of the task", "none: it was given up"));
        let slot = &mut result;
        let driver = &self.driver;
        let run: BoxFuture<'_, ()> = Box::pin(async move { *slot = future.await });
        let ended = thread::scope(|scope| scope.spawn(|| driver.block_on(run)).join());
        ended.map_err(|_| Failure::new("no panic", "one, on a runtime of its own"))?;
        result
    }

    /// Starts a process that joins this world and plays the part.
    pub(crate) fn start_child(&self, part: &Part) -> CheckResult<Child> {
        let Some(world) = self.bed.address() else {
            return Err(Failure::unsupported("be used by two processes"));
        };
        Child::start(self.again, &world, part)
    }
}

/// A task, until it has ended.
pub(crate) struct Task<T>(oneshot::Receiver<CheckResult<T>>);

impl<T> Task<T> {
    pub(crate) async fn join(self) -> CheckResult<T> {
        match self.0.await {
            Ok(result) => result,
            Err(_) => Err(Failure::new("an end of a task", "none: it panicked")),
        }
    }
}

/// Runs something on a plain thread, without a runtime. Returns whether it ended without a panic.
pub(crate) fn on_a_thread(run: impl FnOnce() + Send + 'static) -> bool {
    thread::spawn(run).join().is_ok()
}
