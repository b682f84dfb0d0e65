//! Calls under way, in the order in which they are sent.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

use crate::runtime::BoxFuture;

/// Futures that are polled in turn, first those that were added first (rule N12). So what a node
/// answers is heard in order, too.
///
/// Only those that asked for it are polled again: a poll goes through a whole client, and the
/// answer of one node would cost a poll at each. Nor are they polled because somebody else waits for
/// them now.
///
/// Who waits holds these, and these hold his waker: so a task that waits for a client that never
/// wakes anybody lives as long as the process.
pub(crate) struct Pending<T> {
    calls: Vec<Call<T>>,
    waiter: Arc<AtomicWaker>,
}

struct Call<T> {
    future: BoxFuture<'static, T>,
    /// `None` before the first poll.
    bell: Option<Bell>,
}

/// What a future wakes.
struct Bell {
    waker: Waker,
    /// The inside of that waker.
    rung: Arc<Rung>,
}

struct Rung {
    /// Whether the future asked to be polled again.
    is_rung: AtomicBool,
    waiter: Arc<AtomicWaker>,
}

impl<T> Pending<T> {
    /// None yet, with room for so many.
    pub(crate) fn with_capacity(calls: usize) -> Self {
        Self {
            calls: Vec::with_capacity(calls),
            waiter: Arc::default(),
        }
    }

    /// All of them, for somebody else to wait for. This one is not waited for any more.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            calls: mem::take(&mut self.calls),
            waiter: Arc::clone(&self.waiter),
        }
    }

    pub(crate) fn push(&mut self, future: BoxFuture<'static, T>) {
        self.calls.push(Call { future, bell: None });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// What the next one that is ready brings, or `None` if none is left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // Before it is looked who has rung: who rings from here on wakes this waiter.
        self.waiter.register(cx.waker());
        for (index, call) in self.calls.iter_mut().enumerate() {
            let poll = catch_unwind(AssertUnwindSafe(|| call.poll(&self.waiter)));
            if let Ok(Poll::Pending) = poll {
                continue;
            }
            // In order: those behind may not have been polled yet. And who has panicked would never
            // ring again.
            drop(self.calls.remove(index));
            return match poll {
                Ok(poll) => poll.map(Some),
                Err(panic) => resume_unwind(panic),
            };
        }
        if self.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    /// The same, waiting for it. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl<T> Call<T> {
    /// Polls the future for the first time, or if it asked for it.
    fn poll(&mut self, waiter: &Arc<AtomicWaker>) -> Poll<T> {
        let bell = match &mut self.bell {
            Some(bell) if !bell.rung.take() => return Poll::Pending,
            Some(bell) => bell,
            bell => bell.insert(Bell::new(waiter)),
        };
        let mut cx = Context::from_waker(&bell.waker);
        self.future.as_mut().poll(&mut cx)
    }
}

impl Bell {
    fn new(waiter: &Arc<AtomicWaker>) -> Self {
        let rung = Arc::new(Rung {
            is_rung: AtomicBool::new(false),
            waiter: Arc::clone(waiter),
        });
        Self {
            waker: Waker::from(Arc::clone(&rung)),
            rung,
        }
    }
}

impl Rung {
    fn take(&self) -> bool {
        // Most have not rung: they are looked at, not written to.
        self.is_rung.load(Ordering::Relaxed) && self.is_rung.swap(false, Ordering::Acquire)
    }
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Ordering::Release);
        self.waiter.wake();
    }
}

impl<T> Extend<BoxFuture<'static, T>> for Pending<T> {
    fn extend<I: IntoIterator<Item = BoxFuture<'static, T>>>(&mut self, futures: I) {
        futures.into_iter().for_each(|future| self.push(future));
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.calls.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;

    use super::*;

    /// Futures that note each poll, are ready at the poll that is given for each, and ask for the
    /// next one until then.
    fn futures(ready_at: &[usize]) -> (Pending<usize>, Arc<Mutex<Vec<usize>>>) {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let mut pending = Pending::with_capacity(0);
        for (number, ready_at) in ready_at.iter().copied().enumerate() {
            pending.push(noting(number, ready_at, &polls));
        }
        (pending, polls)
    }

    fn noting(
        number: usize,
        ready_at: usize,
        polls: &Arc<Mutex<Vec<usize>>>,
    ) -> BoxFuture<'static, usize> {
        let (polls, mut left) = (Arc::clone(polls), ready_at);
        Box::pin(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            polls.lock().unwrap().push(number);
            left -= 1;
            if left == 0 {
                Poll::Ready(number)
            } else {
                Poll::Pending
            }
        }))
    }

    #[test]
    fn those_that_were_added_first_are_polled_and_heard_first() {
        let (mut pending, polls) = futures(&[2, 1, 2, 1]);
        assert_eq!(pending.next().now_or_never(), Some(Some(1)));
        pending.push(noting(4, 1, &polls));
        let rest = [0, 2, 3, 4].map(|_| pending.next().now_or_never().flatten());
        assert_eq!(rest, [Some(0), Some(3), Some(2), Some(4)]);
        assert_eq!(*polls.lock().unwrap(), [0, 1, 0, 2, 3, 2, 4]);
    }

    #[test]
    fn it_waits_only_when_all_that_are_left_were_polled() {
        let (mut pending, polls) = futures(&[3, 1, 2]);
        assert_eq!(pending.next().now_or_never(), Some(Some(1)));
        assert_eq!(pending.next().now_or_never(), None);
        assert_eq!(*polls.lock().unwrap(), [0, 1, 0, 2]);
        assert_eq!(pending.next().now_or_never(), Some(Some(0)));
        assert_eq!(pending.next().now_or_never(), Some(Some(2)));
    }

    #[test]
    fn without_futures_there_is_no_next_one() {
        assert_eq!(futures(&[]).0.next().now_or_never(), Some(None));
        let (mut pending, _) = futures(&[1]);
        assert_eq!(pending.next().now_or_never(), Some(Some(0)));
        assert_eq!(pending.next().now_or_never(), Some(None));
    }

    type Polls = Mutex<Vec<(usize, Waker)>>;

    /// Futures that never end. They note each poll, and the waker that came with it.
    fn quiet(futures: usize) -> (Pending<()>, Arc<Polls>) {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let mut pending = Pending::with_capacity(0);
        for number in 0..futures {
            let polls = Arc::clone(&polls);
            pending.push(Box::pin(poll_fn(move |cx| {
                polls.lock().unwrap().push((number, cx.waker().clone()));
                Poll::Pending
            })));
        }
        (pending, polls)
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Who is polled when this waiter looks.
    fn polled(
        pending: &mut Pending<()>,
        polls: &Polls,
        waiter: &Arc<Woken>,
    ) -> Vec<(usize, Waker)> {
        let waker = Waker::from(Arc::clone(waiter));
        let poll = pending.poll_next(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        polls.lock().unwrap().split_off(0)
    }

    fn numbers(polls: &[(usize, Waker)]) -> Vec<usize> {
        polls.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn who_did_not_ask_for_it_is_not_polled_again() {
        let (mut pending, polls) = quiet(3);
        let waiter = Arc::new(Woken::default());
        let first = polled(&mut pending, &polls, &waiter);
        assert_eq!(numbers(&first), [0, 1, 2]);
        assert!(polled(&mut pending, &polls, &waiter).is_empty());
        first[1].1.wake_by_ref();
        assert_eq!(numbers(&polled(&mut pending, &polls, &waiter)), [1]);
        assert!(polled(&mut pending, &polls, &waiter).is_empty());
    }

    #[test]
    fn the_waiter_is_woken_once_before_it_looks() {
        let (mut pending, polls) = quiet(2);
        let waiter = Arc::new(Woken::default());
        let wakes = || waiter.0.swap(0, Ordering::Relaxed);
        let first = polled(&mut pending, &polls, &waiter);
        assert_eq!(wakes(), 0);
        first[0].1.wake_by_ref();
        first[0].1.wake_by_ref();
        assert_eq!(wakes(), 1);
        polled(&mut pending, &polls, &waiter);
        first[0].1.wake_by_ref();
        first[1].1.wake_by_ref();
        assert_eq!(wakes(), 1);
        assert_eq!(numbers(&polled(&mut pending, &polls, &waiter)), [0, 1]);
    }

    #[test]
    fn another_waiter_takes_over_without_a_poll() {
        let (mut pending, polls) = quiet(2);
        let [one, other] = [(), ()].map(|()| Arc::new(Woken::default()));
        let first = polled(&mut pending, &polls, &one);
        first[0].1.wake_by_ref();
        assert_eq!(numbers(&polled(&mut pending, &polls, &other)), [0]);
        first[1].1.wake_by_ref();
        let wakes = [one, other].map(|waiter| waiter.0.load(Ordering::Relaxed));
        assert_eq!(wakes, [1, 1]);
    }

    #[test]
    fn who_rings_while_they_change_hands_is_polled_by_the_next() {
        let (mut pending, polls) = quiet(2);
        let [one, other] = [(), ()].map(|()| Arc::new(Woken::default()));
        let first = polled(&mut pending, &polls, &one);
        let mut taken = pending.take();
        assert!(pending.is_empty());
        first[1].1.wake_by_ref();
        assert_eq!(numbers(&polled(&mut taken, &polls, &other)), [1]);
    }

    #[test]
    fn who_rings_behind_one_that_is_ready_is_polled_next() {
        let (mut pending, polls) = quiet(2);
        let waiter = Arc::new(Woken::default());
        let first = polled(&mut pending, &polls, &waiter);
        pending.calls.insert(
            0,
            Call {
                future: Box::pin(async {}),
                bell: None,
            },
        );
        first[1].1.wake_by_ref();
        assert_eq!(pending.next().now_or_never(), Some(Some(())));
        assert_eq!(numbers(&polled(&mut pending, &polls, &waiter)), [1]);
    }

    #[test]
    fn who_panics_is_gone_and_the_others_stay() {
        let (mut pending, polls) = quiet(1);
        pending.push(Box::pin(async { panic!("on purpose") }));
        let mut poll = || pending.poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(&mut poll)).is_err());
        assert!(poll().is_pending());
        let rest = polls.lock().unwrap().split_off(0);
        rest[0].1.wake_by_ref();
        assert!(poll().is_pending());
        assert_eq!(numbers(&polls.lock().unwrap()), [0]);
        assert_eq!(pending.calls.len(), 1);
    }

    #[test]
    fn no_ring_of_another_thread_is_lost() {
        let (ask, asked) = std::sync::mpsc::channel::<Waker>();
        let mut pending = Pending::with_capacity(8);
        for _ in 0..8 {
            let (ask, mut left) = (ask.clone(), 1000);
            pending.push(Box::pin(poll_fn(move |cx| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                ask.send(cx.waker().clone()).unwrap();
                Poll::Pending
            })));
        }
        drop(ask);
        let ringer = std::thread::spawn(move || asked.into_iter().for_each(Waker::wake));
        futures::executor::block_on(async { while pending.next().await.is_some() {} });
        drop(pending);
        ringer.join().unwrap();
    }
}
