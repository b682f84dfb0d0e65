//! A runtime of one thread, for programs that bring none of their own.

mod block_on;
mod executor;
mod sleep;
mod task;

#[cfg(test)]
mod tests;

pub use block_on::BlockOnError;
pub(crate) use executor::contain;
pub(super) use sleep::Sleep;

use super::{BoxFuture, Runtime, boottime, random};
use executor::Executor;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// The runtime for programs without tokio: one thread that runs tasks and timers.
///
/// It is what a lock uses under smol, async-std, `futures::executor::block_on` and anything else
/// that polls futures. Its thread starts when there is something to do for the first time, and
/// ends after ten idle seconds, to start again when needed. If the system refuses a new thread,
/// tasks and timers are kept, and the next use of the runtime tries again.
///
/// All tasks share that thread, so a task must not block it. A task that panics ends alone, as
/// with any executor: the panic hook reports it, the other tasks and the thread go on.
///
/// A sleep that is dropped leaves nothing behind. Timers fire within a second after the system
/// resumes from a suspend that outlasted them, and at any other time within about 0.1 ms on an
/// idle machine. A `duration` that ends after the largest time a [`Duration`] can hold is a sleep
/// that never ends.
///
/// Clones share the thread.
#[derive(Clone)]
pub struct ThreadRuntime {
    executor: Arc<Executor>,
}

impl ThreadRuntime {
    /// The one runtime of this kind in the process.
    ///
    /// Never fails or panics: nothing starts before there is something to do.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<ThreadRuntime>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| {
            Arc::new(ThreadRuntime {
                executor: Executor::new(),
            })
        }))
    }

    /// Waits on this thread for a future, for programs without any async runtime: everything that
    /// is async here can be used so.
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
    /// The future is polled on this thread, so it need not be `Send`. It must not need a runtime of
    /// another kind: a client on tokio does.
    ///
    /// # Errors
    ///
    /// [`BlockOnError`] on a thread that runs async tasks, tokio's (with the feature `tokio`) or
    /// those of this runtime, and inside another `block_on`. The future is dropped unpolled. In
    /// tokio's `spawn_blocking`, use `Handle::block_on`.
    ///
    /// # Panics
    ///
    /// Only if the future panics.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        block_on::block_on(future)
    }

    /// A sleep without the box that the trait asks for.
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
