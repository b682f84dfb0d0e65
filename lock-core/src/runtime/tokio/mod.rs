//! The runtime for programs on tokio (feature `tokio`).

mod clock;

#[cfg(test)]
mod tests;

use super::{BoxFuture, Runtime, ThreadRuntime, system};
use crate::sync::locked;
use ::tokio::runtime::{Handle, Id, RuntimeFlavor};
use ::tokio::task;
use ::tokio::time::{Instant, Sleep, sleep_until};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// A tokio runtime, by its handle.
///
/// It may be used from any thread, also outside tokio, and after the runtime has ended: `sleep`
/// then runs on the timer of [`ThreadRuntime`](super::ThreadRuntime), and `spawn` drops the task.
/// The handle does not keep the runtime alive.
///
/// - `now` is tokio's clock, which a test may pause and advance, plus the time for which the system
///   was suspended, where the platform can tell. `system_time` goes along with a paused clock.
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
/// - As with any tokio timer or task, a sleep and the work in the background stand still while nothing
///   drives the runtime: do not block the only thread of a runtime on a future that waits for that
///   runtime, and do not hold locks beyond the `block_on` of a current-thread runtime.
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

    /// Returns whether a test may have paused the runtime's clock: tokio refuses that to all but runtimes of
    /// one thread. For others there is no need to look at tokio's clock and at that of the system.
    fn can_be_paused(&self) -> bool {
        self.handle.runtime_flavor() == RuntimeFlavor::CurrentThread
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
        match self.can_be_paused() {
            true => clock::at(self.instant().into_std()),
            false => system::now(),
        }
    }

    fn system_time(&self) -> SystemTime {
        if !self.can_be_paused() {
            return SystemTime::now();
        }
        // A thread that loses the processor in between must not see the wall clock ahead.
        let shown = self.instant().into_std();
        let real = std::time::Instant::now();
        let wall = SystemTime::now();
        // A paused clock takes the wall clock along.
        let moved = match shown.checked_duration_since(real) {
            Some(ahead) => wall.checked_add(ahead),
            None => wall.checked_sub(real - shown),
        };
        moved.unwrap_or(wall)
    }

    fn random(&self) -> [u8; 16] {
        system::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        sleep(self.clone(), duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // The join handle is only for the result; the task goes on without it.
        drop(self.handle.spawn(task));
    }
}

thread_local! {
    /// A task, and a runtime that it was found in.
    static FOUND: Cell<Option<(task::Id, Id)>> = const { Cell::new(None) };
}

/// Returns whether the caller is in the context of this runtime.
///
/// To ask tokio takes a handle, whose owners all threads of a runtime count in one place, and a pair
/// of acquire and release asks some thirty times. So the answer is remembered for as long as the
/// thread runs the same task. A task that has been in the context of two runtimes, one inside the
/// other, may get the answer for the wrong one a little too long.
fn is_inside(id: Id) -> bool {
    let task = task::try_id();
    if let Some(task) = task
        && FOUND.try_with(|found| found.get() == Some((task, id))) == Ok(true)
    {
        return true;
    }
    let is_inside = Handle::try_current().is_ok_and(|current| current.id() == id);
    if is_inside && let Some(task) = task {
        // A thread that is about to end remembers nothing.
        FOUND.try_with(|found| found.set(Some((task, id)))).ok();
    }
    is_inside
}

/// Beyond it, tokio's arithmetic might overflow on some platform.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

fn sleep(runtime: TokioRuntime, duration: Duration) -> BoxFuture<'static, ()> {
    if duration.is_zero() {
        return Box::pin(ready(()));
    }
    // The sleep counts from the call, not from the first poll.
    match runtime.instant().checked_add(duration) {
        Some(deadline) if duration <= FOREVER => Box::pin(sleep_to(runtime, deadline)),
        _ => Box::pin(pending()),
    }
}

async fn sleep_to(runtime: TokioRuntime, deadline: Instant) {
    if let Some(timer) = tokio_timer(&runtime, deadline) {
        let mut timer = pin!(timer);
        if poll_fn(|cx| poll_timer(&runtime, timer.as_mut(), cx)).await == End::Due {
            return;
        }
    }
    let rest = deadline.saturating_duration_since(runtime.instant());
    ThreadRuntime::shared().sleep(rest).await;
}

#[derive(PartialEq, Eq)]
enum End {
    Due,
    /// Tokio's timer cannot be used any more.
    Unusable,
}

/// Tokio's timer, if the caller is inside the runtime and the runtime has timers. Elsewhere its
/// driver may not run: it may have ended, or wait for the very thread that blocks on the sleep.
fn tokio_timer(runtime: &TokioRuntime, deadline: Instant) -> Option<Sleep> {
    let id = runtime.handle.id();
    // Asked anew, since tokio's timer belongs to the runtime that really is the innermost.
    let is_inside = Handle::try_current().is_ok_and(|current| current.id() == id);
    if !is_inside || is_known_timerless(id) {
        return None;
    }
    let timer = catch_unwind(|| sleep_until(deadline));
    if timer.is_err() {
        note_timerless(id);
    }
    timer.ok()
}

fn poll_timer(runtime: &TokioRuntime, timer: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<End> {
    if !is_inside(runtime.handle.id()) {
        return Poll::Ready(End::Unusable);
    }
    // The context alone does not tell that the runtime has not ended: other threads can be in it.
    // A timer that panicked is only dropped after that, which tokio allows.
    match catch_unwind(AssertUnwindSafe(|| timer.poll(cx))) {
        Ok(poll) => poll.map(|()| End::Due),
        Err(_) => Poll::Ready(End::Unusable),
    }
}

/// The runtimes that were found to have no timers, so that each of them is tried once.
static TIMERLESS: Mutex<VecDeque<Id>> = Mutex::new(VecDeque::new());

/// Runtimes beyond it are forgotten, oldest first, and tried again.
const TIMERLESS_KEPT: usize = 64;

/// There are some: spares everybody else the lock.
static ANY_TIMERLESS: AtomicBool = AtomicBool::new(false);

fn is_known_timerless(id: Id) -> bool {
    ANY_TIMERLESS.load(Ordering::Acquire) && locked(&TIMERLESS).contains(&id)
}

fn note_timerless(id: Id) {
    let mut ids = locked(&TIMERLESS);
    ids.truncate(TIMERLESS_KEPT - 1);
    ids.push_front(id);
    ANY_TIMERLESS.store(true, Ordering::Release);
}
