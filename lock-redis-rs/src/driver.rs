//! Carries bytes between the socket and redis-rs's queue, many commands at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// From so many calls in flight on, the driver lets others run before it does.
///
/// Tokio's multi-thread runtime runs the task that was woken last before all others that wait. The
/// driver would send each command by itself so, as soon as it is in the queue. Measured with 64
/// callers: one system call for every second command, and one for fifty when the driver gives way.
/// With few callers there is nothing to join.
const CROWD: usize = 4;

/// How many connections this process has. Where there is only one, its server would be idle while
/// commands are joined: measured with 64 callers, it then takes a fifth more of them if they are
/// sent as they come. With several, joining is what takes more.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// The driver of a connection, which gives way to callers while there are many.
pub(crate) struct PatientDriver<F, L> {
    driver: F,
    connections: &'static AtomicUsize,
    /// What each call in flight holds, and one other.
    link: Weak<L>,
    has_given_way: bool,
}

impl<F, L> PatientDriver<F, L> {
    pub(crate) fn new(driver: F, link: Weak<L>) -> Self {
        Self::among(&CONNECTIONS, driver, link)
    }

    fn among(connections: &'static AtomicUsize, driver: F, link: Weak<L>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self {
            driver,
            connections,
            link,
            has_given_way: false,
        }
    }

    fn is_crowded(&self) -> bool {
        self.link.strong_count() > CROWD && self.connections.load(Ordering::Relaxed) > 1
    }
}

impl<F, L> Drop for PatientDriver<F, L> {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<F: Future<Output = ()> + Unpin, L> Future for PatientDriver<F, L> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_given_way && self.is_crowded() {
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
    use std::task::{Wake, Waker};

    use futures::FutureExt;
    use futures::future::ready;

    use super::*;

    #[test]
    fn with_few_callers_the_driver_runs_at_once() {
        static MANY: AtomicUsize = AtomicUsize::new(1);
        let link = Arc::new(());
        let _calls = vec![Arc::clone(&link); CROWD - 1];
        let driver = PatientDriver::among(&MANY, ready(()), Arc::downgrade(&link));
        assert!(driver.now_or_never().is_some());
    }

    #[test]
    fn where_there_is_no_other_connection_the_driver_runs_at_once() {
        static ONE: AtomicUsize = AtomicUsize::new(0);
        let link = Arc::new(());
        let _calls = vec![Arc::clone(&link); CROWD];
        let driver = || PatientDriver::among(&ONE, ready(()), Arc::downgrade(&link));
        assert!(driver().now_or_never().is_some());
        let other = driver();
        assert!(driver().now_or_never().is_none());
        drop(other);
        assert!(driver().now_or_never().is_some());
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
        static MANY: AtomicUsize = AtomicUsize::new(1);
        let mut driver = PatientDriver::among(&MANY, busy, Arc::downgrade(&link));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut wakes = Vec::new();
        for _ in 0..4 {
            assert!(driver.poll_unpin(&mut cx).is_pending());
            wakes.push(woken.0.swap(0, Ordering::Relaxed));
        }
        drop(driver);
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
