//! Tokio's timers, each used by many sleeps in turn.
//!
//! To enter a timer into tokio's wheel and to take it out again is a large part of what a lock
//! costs beyond its commands, and hardly any deadline of a lock is ever reached. So a sleep that
//! is dropped early leaves its timer in the wheel, for the next sleep on the same thread. That one
//! ends later, so the timer has to be moved only if it comes to its end meanwhile.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tokio::runtime::{Handle, Id};
use ::tokio::time::{Instant, Sleep, sleep_until};

use super::inside::is_inside;

/// Timers of longer sleeps are not kept: they would hold on to whoever slept last, and a paused clock
/// would go on to them.
const SHORT: Duration = Duration::from_secs(1);

/// How many timers a thread keeps. Each of them wakes somebody in vain once, at its end.
const KEPT: usize = 64;

thread_local! {
    static IDLE: RefCell<Vec<Idle>> = const { RefCell::new(Vec::new()) };
}

type Idle = (Id, Pin<Box<Sleep>>);

/// A timer of one runtime.
#[derive(Debug)]
pub(super) struct Timer {
    runtime: Id,
    /// `None` when it is of no more use.
    sleep: Option<Pin<Box<Sleep>>>,
    is_short: bool,
}

impl Timer {
    /// A timer of the runtime that the caller seems to be inside of; `None` if it is inside of
    /// another one. Panics if the runtime has none.
    pub(super) fn new(runtime: Id, deadline: Instant, duration: Duration) -> Option<Self> {
        let sleep = match take(runtime) {
            Some(sleep) if sleep.deadline() <= deadline => sleep,
            // A new one is made by the runtime that really is the innermost.
            _ if Handle::try_current().is_ok_and(|current| current.id() == runtime) => {
                Box::pin(sleep_until(deadline))
            }
            _ => return None,
        };
        Some(Self {
            runtime,
            sleep: Some(sleep),
            is_short: duration <= SHORT,
        })
    }

    /// Ready at the deadline. Panics if the runtime has ended, and is of no more use then.
    pub(super) fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut sleep) = self.sleep.take() else {
            return Poll::Ready(());
        };
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        self.sleep = Some(sleep);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // Elsewhere it would hardly be used again, and hold on to its runtime.
        if let Some(sleep) = self.sleep.take()
            && self.is_short
            && is_inside(self.runtime)
        {
            // What is not kept, also by a thread that is about to end, is dropped out here, since it
            // has wakers: foreign code.
            let mut sleep = Some((self.runtime, sleep));
            let keep = |idle: &RefCell<Vec<Idle>>| {
                let mut idle = idle.borrow_mut();
                if idle.len() < KEPT {
                    idle.extend(sleep.take());
                }
            };
            IDLE.try_with(keep).ok();
        }
    }
}

/// An idle timer of this runtime. Those of another one, which the thread ran before, are dropped.
fn take(runtime: Id) -> Option<Pin<Box<Sleep>>> {
    let idle = IDLE.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        match idle.pop() {
            Some((owner, sleep)) if owner == runtime => Ok(Some(sleep)),
            None => Ok(None),
            // Not dropped under the borrow: they have wakers.
            last => Err((last, std::mem::take(&mut *idle))),
        }
    });
    idle.ok()?.ok()?
}
