//! Carries bytes between the socket and redis-rs's queue, many commands at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

/// From so many calls in flight on, the driver lets others run before it does.
///
/// Tokio's multi-thread runtime runs the task that was woken last before all others that wait. The
/// driver would send each command by itself so, as soon as it is in the queue. Measured with 64
/// callers: one system call for every second command, and one for fifty when the driver gives way.
/// With few callers there is nothing to join.
const CROWD: usize = 4;

/// The driver of a connection, which gives way to callers while there are many.
pub(crate) struct PatientDriver<F, L> {
    driver: F,
    /// What each call in flight holds, and one other.
    link: Weak<L>,
    has_given_way: bool,
}

impl<F, L> PatientDriver<F, L> {
    pub(crate) fn new(driver: F, link: Weak<L>) -> Self {
        Self {
            driver,
            link,
            has_given_way: false,
        }
    }
}

impl<F: Future<Output = ()> + Unpin, L> Future for PatientDriver<F, L> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_given_way && self.link.strong_count() > CROWD {
            self.has_given_way = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_given_way = false;
        Pin::new(&mut self.driver).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use futures::FutureExt;
    use futures::future::ready;

    use super::*;

    #[test]
    fn with_few_callers_the_driver_runs_at_once() {
        let link = Arc::new(());
        let _calls = vec![Arc::clone(&link); CROWD - 1];
        let driver = PatientDriver::new(ready(()), Arc::downgrade(&link));
        assert!(driver.now_or_never().is_some());
    }

    #[test]
    fn with_many_callers_the_driver_gives_way_once_and_asks_to_be_run_again() {
        let link = Arc::new(());
        let _calls = vec![Arc::clone(&link); CROWD];
        let mut polls = 0;
        let busy = poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        });
        let mut driver = PatientDriver::new(busy, Arc::downgrade(&link));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut wakes = Vec::new();
        for _ in 0..4 {
            assert!(driver.poll_unpin(&mut cx).is_pending());
            wakes.push(woken.0.swap(0, Ordering::Relaxed));
        }
        assert_eq!(wakes, [1, 0, 1, 0]);
        assert_eq!(polls, 2);
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
