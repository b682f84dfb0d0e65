//! Tokio's timers, each used by many sleeps in turn.
//!
//! To enter a timer into tokio's wheel and to take it out again is a large part of what a lock
//! costs beyond its commands, and hardly any deadline of a lock is ever reached. So a sleep that
//! is dropped early leaves its timer in the wheel, for the next sleep on the same thread. That one
//! ends later, so the timer has to be moved only if it comes to its end meanwhile.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::runtime::Id;
use ::tokio::time::{Instant, Sleep, sleep_until};

use super::inside::is_inside;

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
}

impl Timer {
    /// A timer of the runtime that the caller is inside of. Panics if that has none.
    pub(super) fn new(runtime: Id, deadline: Instant) -> Self {
        let idle = IDLE.try_with(|idle| take(&mut idle.borrow_mut(), runtime));
        let sleep = match idle.ok().flatten() {
            Some(sleep) if sleep.deadline() <= deadline => sleep,
            _ => Box::pin(sleep_until(deadline)),
        };
        Self {
            runtime,
            sleep: Some(sleep),
        }
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
            && is_inside(self.runtime)
        {
            let keep = |idle: &RefCell<Vec<Idle>>| {
                let mut idle = idle.borrow_mut();
                if idle.len() < KEPT {
                    idle.push((self.runtime, sleep));
                }
            };
            // A thread that is about to end keeps nothing.
            IDLE.try_with(keep).ok();
        }
    }
}

fn take(idle: &mut Vec<Idle>, runtime: Id) -> Option<Pin<Box<Sleep>>> {
    let (owner, sleep) = idle.pop()?;
    if owner == runtime {
        return Some(sleep);
    }
    // The thread runs another runtime now.
    idle.clear();
    None
}
