//! The runtime for programs on tokio (feature `tokio`).

mod clock;
mod sleep;

#[cfg(test)]
mod tests;

use super::{BoxFuture, Runtime, random};
use ::tokio::runtime::{Handle, Id};
use ::tokio::time::Instant;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A tokio runtime, by its handle.
///
/// It may be used from any thread, also outside tokio, and after the runtime has ended: `sleep`
/// then runs on the timer of [`ThreadRuntime`](super::ThreadRuntime), and `spawn` drops the task.
/// The handle does not keep the runtime alive.
///
/// - `now` is tokio's clock, which a test may pause and advance, plus the time for which the system
///   was suspended, where the platform can tell.
/// - `sleep` is tokio's timer (rounded up to milliseconds) if its future is polled inside the
///   runtime. Polled elsewhere, it runs on the timer of the thread runtime, in real time even when
///   tokio's clock is paused. A sleep of more than 30 years never ends.
/// - A runtime that was built without `enable_time` also gets that timer. Tokio can only be asked by
///   trying, so one panic message about disabled timers reaches the panic hook; the panic itself is
///   caught.
/// - The same holds for a runtime that has ended while a thread outside it still polls within its
///   context (`Handle::enter`, `Handle::block_on`): tokio's timer panics, which is caught, and the
///   sleep goes on with the other timer. In programs compiled with `panic = "abort"` a panic cannot be
///   caught: there, enable time, and do not poll in the context of an ended runtime.
/// - As with any tokio timer, a sleep stands still while nothing drives the runtime: do not block
///   the only thread of a runtime on a future that waits for that runtime.
#[derive(Clone)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// Makes one of the runtime's handle.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns the runtime whose context the caller is in, if there is one. This costs nanoseconds.
    #[must_use]
    pub fn current() -> Option<Self> {
        Handle::try_current().ok().map(Self::new)
    }

    /// Reads the runtime's own clock. On another thread, tokio would read the real clock instead of a
    /// paused one, so this enters the runtime's context for a moment.
    fn instant(&self) -> Instant {
        if is_inside(self.handle.id()) {
            return Instant::now();
        }
        match Handle::try_current() {
            // The thread is about to end and cannot have a context any more.
            Err(error) if error.is_thread_local_destroyed() => std::time::Instant::now().into(),
            _ => {
                let _context = self.handle.enter();
                Instant::now()
            }
        }
    }
}

impl fmt::Debug for TokioRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioRuntime")
            .field("id", &self.handle.id())
            .finish_non_exhaustive()
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Duration {
        clock::at(self.instant().into_std())
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        random::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        sleep::sleep(self.clone(), duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // The join handle is only for the result; the task goes on without it.
        drop(self.handle.spawn(task));
    }
}

/// Returns whether the caller is in the context of this runtime.
fn is_inside(id: Id) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == id)
}
