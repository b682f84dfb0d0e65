//! A runtime of one thread, for programs without a runtime that this crate knows.

use std::error::Error;
use std::fmt;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_executor::Executor;
use async_io::Timer;
use futures::FutureExt;
use futures::executor::enter;

use super::{AmbientId, BoxFuture, Runtime, contain, system};

/// The longest wait of a timer. Its clock stops while the system is suspended and ours does not, so a
/// long wait is cut into pieces, to look at the latter.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The pause before the thread goes on after a panic that no task contained.
const AFTER_PANIC: Duration = Duration::from_millis(20);

/// The runtime for programs without tokio: one thread that runs tasks and timers.
///
/// Locks use it under smol, async-std, `futures::executor::block_on` and anything else that polls
/// futures. Its thread starts with the first task; if the system refuses a new thread, tasks are kept,
/// and the next one tries again. Timers are those of the crate `async-io`, which smol uses too. If the
/// system refuses that crate its thread or a descriptor, it panics, and is tried again at the next use.
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
#[non_exhaustive]
pub struct ThreadRuntime;

/// Why [`ThreadRuntime::block_on`] refused to block: the thread runs async tasks, which would stand
/// still meanwhile, perhaps among them the one that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockOnError;

/// The tasks of all [`ThreadRuntime`]s.
static TASKS: Executor<'static> = Executor::new();

impl ThreadRuntime {
    /// Returns the one runtime of this kind in the process.
    ///
    /// It never fails or panics: nothing starts before there is something to do.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<ThreadRuntime>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self)))
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
        if AmbientId::current() != AmbientId::Thread {
            return Err(BlockOnError);
        }
        let _entered = enter().map_err(|_| BlockOnError)?;
        Ok(async_io::block_on(future))
    }
}

impl fmt::Debug for ThreadRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadRuntime").finish_non_exhaustive()
    }
}

impl Runtime for ThreadRuntime {
    fn now(&self) -> Duration {
        system::now()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        system::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(sleep_until(system::now().checked_add(duration)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // The payload of a panic is foreign too, and its drop may panic with another payload.
        let contained = AssertUnwindSafe(task).catch_unwind().map(|end| {
            contain(|| drop(end));
        });
        TASKS.spawn(contained).detach();
        start_thread();
    }
}

impl fmt::Display for BlockOnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "cannot block this thread, it is inside an async runtime: use `.await`, or block on a \
             thread of its own",
        )
    }
}

impl Error for BlockOnError {}

/// Waits for the deadline, for ever if it is beyond the end of the clock (`None`).
async fn sleep_until(deadline: Option<Duration>) {
    let Some(deadline) = deadline else {
        return pending().await;
    };
    loop {
        let left = deadline.saturating_sub(system::now());
        if left.is_zero() {
            return;
        }
        Timer::after(left.min(LONGEST_WAIT)).await;
    }
}

/// Starts the thread that runs the tasks, unless it already runs.
fn start_thread() {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.load(Ordering::Relaxed) || IS_STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let thread = std::thread::Builder::new().name("lock-core".to_owned());
    if thread.spawn(run_tasks).is_err() {
        IS_STARTED.store(false, Ordering::Relaxed);
    }
}

fn run_tasks() {
    // Nothing that a task may do can block this thread.
    let _entered = enter();
    // A task that panics is contained. A panic in the waker of a timer, or in the drop of a task,
    // would end the thread.
    while catch_unwind(|| async_io::block_on(TASKS.run(pending::<()>()))).is_err() {
        // It may do so again at once: async-io panics as long as the system refuses it a descriptor.
        std::thread::sleep(AFTER_PANIC);
    }
}

#[cfg(test)]
mod tests;
