mod enough;
mod memory;

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use futures::FutureExt;

use super::*;
use crate::runtime::BoxFuture;

type Numbered = BoxFuture<'static, usize>;

impl Work for Numbered {
    type Output = usize;

    fn run(self) -> impl Future<Output = usize> + Send {
        self
    }
}

impl Recycled for Numbered {
    fn idle() -> &'static LocalKey<Idle<Self>> {
        thread_local! {
            static IDLE: Idle<Numbered> = const { RefCell::new(Vec::new()) };
        }
        &IDLE
    }
}

/// Futures that note each poll, are ready at the poll that is given for each, and ask for the
/// next one until then.
fn futures(ready_at: &[usize]) -> (Pending<Numbered>, Arc<Mutex<Vec<usize>>>) {
    let polls = Arc::new(Mutex::new(Vec::new()));
    let mut pending = Pending::<Numbered>::default();
    for (number, ready_at) in ready_at.iter().copied().enumerate() {
        pending.push(noting(number, ready_at, &polls));
    }
    (pending, polls)
}

fn noting(number: usize, ready_at: usize, polls: &Arc<Mutex<Vec<usize>>>) -> Numbered {
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
fn quiet(futures: usize) -> (Pending<Numbered>, Arc<Polls>) {
    let polls = Arc::new(Mutex::new(Vec::new()));
    let mut pending = Pending::<Numbered>::default();
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

impl Woken {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Who is polled when this waiter looks.
fn polled(
    pending: &mut Pending<Numbered>,
    polls: &Polls,
    waiter: &Arc<Woken>,
) -> Vec<(usize, Waker)> {
    polled_for(1, pending, polls, waiter)
}

/// The same if he has use for so many.
fn polled_for(
    enough: usize,
    pending: &mut Pending<Numbered>,
    polls: &Polls,
    waiter: &Arc<Woken>,
) -> Vec<(usize, Waker)> {
    let waker = Waker::from(Arc::clone(waiter));
    let poll = pending.poll_next(&mut Context::from_waker(&waker), enough);
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
    let first = polled(&mut pending, &polls, &waiter);
    assert_eq!(waiter.take(), 0);
    first[0].1.wake_by_ref();
    first[0].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
    polled(&mut pending, &polls, &waiter);
    first[0].1.wake_by_ref();
    first[1].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
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
    let wakes = [one, other].map(|waiter| waiter.take());
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
    assert_eq!(one.take(), 0);
    assert_eq!(numbers(&polled(&mut taken, &polls, &other)), [1]);
}

#[test]
fn who_rings_behind_one_that_is_ready_is_polled_next() {
    let (mut pending, polls) = quiet(2);
    let waiter = Arc::new(Woken::default());
    let first = polled(&mut pending, &polls, &waiter);
    push_in_front(&mut pending, Box::pin(async { 7 }));
    first[1].1.wake_by_ref();
    assert_eq!(pending.next().now_or_never(), Some(Some(7)));
    assert_eq!(numbers(&polled(&mut pending, &polls, &waiter)), [1]);
}

#[test]
fn who_panics_is_gone_and_the_others_stay() {
    let (mut pending, polls) = quiet(1);
    pending.push(Box::pin(async { panic!("on purpose") }));
    let mut poll = || pending.poll_next(&mut Context::from_waker(Waker::noop()), 1);
    assert!(catch_unwind(AssertUnwindSafe(&mut poll)).is_err());
    assert!(poll().is_pending());
    let rest = polls.lock().unwrap().split_off(0);
    rest[0].1.wake_by_ref();
    assert!(poll().is_pending());
    assert_eq!(numbers(&polls.lock().unwrap()), [0]);
    assert_eq!(pending.len(), 1);
}

#[test]
fn no_ring_of_another_thread_is_lost() {
    let (ask, asked) = std::sync::mpsc::channel::<Waker>();
    let mut pending = Pending::<Numbered>::default();
    for _ in 0..8 {
        let (ask, mut left) = (ask.clone(), 1000);
        pending.push(Box::pin(poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(0);
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

fn push_in_front(pending: &mut Pending<Numbered>, call: Numbered) {
    pending.push(call);
    let calls = &mut pending.memory.as_mut().unwrap().calls;
    calls.rotate_right(1);
}
