//! A runtime of one thread, for programs without a runtime that this crate knows.

mod block_on;
mod executor;
mod sleep;
mod task;

#[cfg(test)]
mod tests;

pub use block_on::BlockOnError;
pub(super) use sleep::Sleep;

use super::{BoxFuture, Runtime, boottime, random};
use executor::Executor;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// The runtime for programs without tokio: one thread that runs tasks and timers.
///
/// Locks use it under smol, async-std, `futures::executor::block_on` and anything else that polls
/// futures. Its thread starts when there is something to do, ends after ten idle seconds, and starts
/// again when it is needed. If the system refuses a new thread, tasks and timers are kept, and the
/// next use of the runtime tries again.
///
/// All tasks share that thread, so a task must not block it. A task that panics ends alone: the panic
/// hook reports it, and the other tasks and the thread go on.
///
/// A sleep that is dropped leaves nothing behind. A timer fires within about 0.1 ms of its time on an
/// idle machine; if the system was suspended at that time, within a second of its resumption. A sleep
/// whose end is beyond the largest [`Duration`] never ends.
///
/// Clones share the thread.
#[derive(Clone)]
pub struct ThreadRuntime {
    executor: Arc<Executor>,
}

impl ThreadRuntime {
    /// Returns the one runtime of this kind in the process.
    ///
    /// It never fails or panics: nothing starts before there is something to do.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<ThreadRuntime>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| {
            Arc::new(ThreadRuntime {
                executor: Executor::new(),
            })
        }))
    }

    /// Waits for a future on the current thread, for programs without an async runtime. Everything
    /// that is async in this crate can be used like this.
    ///
    /// ```
    /// use lock_core::runtime::ThreadRuntime;
    /// use lock_core::{DistributedLockExt, Redlock};
    /// # use lock_testkit::MemoryNode;
    ///
    /// let runtime = ThreadRuntime::shared();
    /// let locks = Redlock::new(MemoryNode::several(5))?;
    /// let guard = runtime.block_on(locks.lock("invoice-7"))??;
    /// assert!(guard.is_valid());
    /// runtime.block_on(guard.release())??;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The future is polled on the current thread, so it need not be `Send`. It must not need a
    /// runtime of another kind, as a client on tokio does.
    ///
    /// # Errors
    ///
    /// [`BlockOnError`] on a thread that runs async tasks, those of tokio (with the feature `tokio`)
    /// or of this runtime, and inside another `block_on`. The future is dropped without being polled.
    /// In tokio's `spawn_blocking`, use `Handle::block_on`.
    ///
    /// # Panics
    ///
    /// Panics only if the future does.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        block_on::block_on(future)
    }

    /// Returns a sleep without the box of the trait's method.
    pub(super) fn timer(&self, duration: Duration) -> Sleep {
        Sleep::new(Arc::clone(&self.executor), duration)
    }
}

impl fmt::Debug for ThreadRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadRuntime").finish_non_exhaustive()
    }
}

impl Runtime for ThreadRuntime {
    fn now(&self) -> Duration {
        boottime::now()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        random::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.timer(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(task);
    }
}
