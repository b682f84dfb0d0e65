//! A sleep that uses tokio's timer where that can work, and the thread runtime's where not.

use super::TokioRuntime;
use super::is_inside;
use crate::runtime::{BoxFuture, Runtime, ThreadRuntime};
use ::tokio::runtime::Id;
use ::tokio::time::{Instant, Sleep, sleep_until};
use std::collections::VecDeque;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Beyond it, tokio's arithmetic might overflow on some platform.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

pub(super) fn sleep(runtime: TokioRuntime, duration: Duration) -> BoxFuture<'static, ()> {
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
    if !is_inside(id) || TIMERLESS.contains(id) {
        return None;
    }
    let timer = catch_unwind(|| sleep_until(deadline));
    if timer.is_err() {
        TIMERLESS.insert(id);
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

static TIMERLESS: Timerless = Timerless::new();

/// The runtimes that were found to have no timers, so that each of them is tried once.
struct Timerless {
    /// Spares everybody else the lock.
    any: AtomicBool,
    ids: Mutex<VecDeque<Id>>,
}

impl Timerless {
    /// Runtimes beyond it are forgotten, oldest first, and tried again.
    const KEPT: usize = 64;

    const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            ids: Mutex::new(VecDeque::new()),
        }
    }

    fn contains(&self, id: Id) -> bool {
        self.any.load(Ordering::Acquire) && self.lock().contains(&id)
    }

    fn insert(&self, id: Id) {
        let mut ids = self.lock();
        if ids.len() == Self::KEPT {
            ids.pop_front();
        }
        ids.push_back(id);
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Id>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) fn is_known_timerless(id: Id) -> bool {
    TIMERLESS.contains(id)
}
