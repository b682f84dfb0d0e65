//! A timer of the thread runtime.

use super::executor::{Executor, TimerKey};
use crate::runtime::boottime;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A future that is ready at its deadline. It enters the executor's map at its first poll, and leaves
/// it when it is due or dropped.
pub(in crate::runtime) struct Sleep {
    executor: Arc<Executor>,
    /// `None` is beyond the end of the clock.
    deadline: Option<Duration>,
    timer: Option<TimerKey>,
}

impl Sleep {
    pub(super) fn new(executor: Arc<Executor>, duration: Duration) -> Self {
        Self {
            executor,
            deadline: boottime::now().checked_add(duration),
            timer: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        if boottime::now() >= deadline {
            return Poll::Ready(());
        }
        let timer = self.executor.set_timer(deadline, self.timer, cx.waker());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.executor.cancel_timer(timer);
        }
    }
}
