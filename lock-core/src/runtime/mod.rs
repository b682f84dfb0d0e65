//! For custom executors: [`Runtime`] is what the algorithm needs of an async runtime, namely time,
//! random bytes and background tasks.

mod system;
mod thread;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "tokio")]
pub use self::tokio::TokioRuntime;
pub use thread::{BlockOnError, ThreadRuntime};

use std::fmt::Debug;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A boxed future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A clock, a source of random bytes, timers and background tasks.
///
/// There are two implementations: `TokioRuntime` (feature `tokio`) for programs on tokio, and
/// [`ThreadRuntime`] for all others. [`ambient`] chooses between them. A simulator or another
/// executor implements its own.
///
/// # Contract
///
/// - All methods may be called from any thread, inside or outside an async context, and never
///   block or panic, not even after the runtime has ended.
/// - `now` never goes back. Where the platform can tell, it also counts the time for which the system
///   was suspended, because a lock's ttl runs on meanwhile.
pub trait Runtime: Debug + Send + Sync + 'static {
    /// Monotonic time since an origin that stays the same for the life of this runtime.
    fn now(&self) -> Duration;

    /// The wall clock. It decides about ticks of a schedule. It never makes a lock valid for longer; but
    /// where it runs ahead of [`now`](Self::now), the machine was paused, and locks end (see
    /// [`RedlockBuilder::notice_pauses`](crate::RedlockBuilder::notice_pauses)). So both clocks are to have
    /// one source: where a test moves one of them, it moves the other.
    fn system_time(&self) -> SystemTime;

    /// Returns 16 random bytes from a generator that is fit for secrets. If the system has none for a
    /// moment, this waits, since no other bytes would do.
    fn random(&self) -> [u8; 16];

    /// Returns a future that is ready when `duration` has passed since the call, and never if that is
    /// too long for the clock. It borrows nothing from the runtime, and may be dropped at any time
    /// without leaving anything behind that grows.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs a task in the background. If the runtime has ended, the task is dropped.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Returns the runtime of the caller: tokio's (feature `tokio`) if the caller is in the context of
/// one, else the [`ThreadRuntime`] of the process. It never fails or panics.
#[must_use]
pub fn ambient() -> Arc<dyn Runtime> {
    cfg_if::cfg_if! {
        if #[cfg(feature = "tokio")] {
            match TokioRuntime::current() {
                Some(runtime) => Arc::new(runtime),
                None => ThreadRuntime::shared(),
            }
        } else {
            ThreadRuntime::shared()
        }
    }
}

/// Runs foreign code, and returns `None` if it panics: the panic goes no further than the panic hook.
pub(crate) fn contain<T>(foreign: impl FnOnce() -> T) -> Option<T> {
    // Whatever it left half done belongs to it and is not used again.
    match catch_unwind(AssertUnwindSafe(foreign)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // The payload is foreign too, and its drop may panic with another payload. That one is
            // leaked, since this could go on for ever.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(another);
            }
            None
        }
    }
}

/// Which of several runtimes something lives on; `None` if there is one for all.
pub(crate) type Home = Option<AmbientId>;

/// Names one of the runtimes between which [`ambient`] chooses, without keeping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AmbientId {
    #[cfg(feature = "tokio")]
    Tokio(::tokio::runtime::Id),
    Thread,
}

impl AmbientId {
    /// Names the runtime that [`ambient`] finds.
    pub(crate) fn current() -> Self {
        #[cfg(feature = "tokio")]
        if let Ok(handle) = ::tokio::runtime::Handle::try_current() {
            return Self::Tokio(handle.id());
        }
        Self::Thread
    }

    /// Returns whether the caller runs on this runtime.
    pub(crate) fn is_current(self) -> bool {
        // Asked anew each time: what a task remembers may be another runtime, which nobody drives.
        self == Self::current()
    }
}

#[cfg(all(test, not(feature = "tokio")))]
mod tests {
    #[test]
    fn without_tokio_the_ambient_runtime_is_the_thread_runtime() {
        assert!(format!("{:?}", super::ambient()).starts_with("ThreadRuntime"));
    }
}
