//! Wakes the one task that waits for something to do.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;

/// A nudge that comes while the task does not wait is kept for its next wait; many are one.
#[derive(Debug, Default)]
pub(crate) struct Nudge {
    given: AtomicBool,
    waiter: AtomicWaker,
}

impl Nudge {
    pub(crate) fn give(&self) {
        self.given.store(true, Ordering::Release);
        self.waiter.wake();
    }

    /// Waits for a nudge. One task may wait at a time.
    pub(crate) async fn taken(&self) {
        poll_fn(|cx| {
            // First the waker, then the look: a nudge between the two wakes.
            self.waiter.register(cx.waker());
            if self.given.swap(false, Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_nudge_is_kept_for_the_next_wait_and_taken_once() {
        let nudge = Nudge::default();
        assert!(nudge.taken().now_or_never().is_none());
        nudge.give();
        nudge.give();
        assert!(nudge.taken().now_or_never().is_some());
        assert!(nudge.taken().now_or_never().is_none());
    }

    #[test]
    fn a_nudge_wakes_who_waits_on_another_thread() {
        let nudge = Nudge::default();
        std::thread::scope(|scope| {
            for _ in 0..1000 {
                let waiting = scope.spawn(|| block_on(nudge.taken()));
                nudge.give();
                waiting.join().unwrap();
            }
        });
    }
}
