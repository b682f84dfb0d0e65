//! A spawned future.

use super::executor::{Executor, contain};
use crate::runtime::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// A future that runs in the background. It is its own waker: while it waits, only its wakers keep it
/// alive, so a task that nothing can wake any more is dropped, unless it holds a waker of itself.
pub(super) struct Task {
    executor: Arc<Executor>,
    /// `None` once it has ended. Only the executor's thread takes this lock.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Whether it is in the queue, or has ended and must not go there again.
    queued: AtomicBool,
}

impl Task {
    /// Makes a task that the caller puts into the queue.
    pub(super) fn new(executor: Arc<Executor>, future: BoxFuture<'static, ()>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            future: Mutex::new(Some(future)),
            queued: AtomicBool::new(true),
        })
    }

    pub(super) fn run(self: Arc<Self>) {
        // Before the poll, so that a wake-up during the poll queues the task anew.
        self.queued.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&self));
        let mut slot = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = slot.as_mut() else { return };
        let poll = contain(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if poll.is_some_and(|poll| poll.is_pending()) {
            return;
        }
        let ended = slot.take();
        drop(slot);
        self.queued.store(true, Ordering::Release);
        drop(ended);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.executor.schedule(Arc::clone(self));
        }
    }
}
