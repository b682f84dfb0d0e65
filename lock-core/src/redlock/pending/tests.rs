use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

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
    assert_eq!(one.0.load(Ordering::Relaxed), 0);
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

/// Tells by its count whether a call was dropped.
fn holding(count: &Arc<()>, result: Poll<usize>) -> Numbered {
    let count = Arc::clone(count);
    Box::pin(poll_fn(move |_| {
        let _ = &count;
        result
    }))
}

#[test]
fn the_memory_of_calls_that_have_ended_is_used_by_the_next() {
    let bells = |pending: &Pending<Numbered>| {
        let memory = pending.memory.as_ref().unwrap();
        let bells = memory.calls.iter().map(|seat| Arc::as_ptr(&seat.bell));
        bells.collect::<std::collections::BTreeSet<_>>()
    };
    let (mut first, _) = futures(&[1, 1, 1]);
    let before = bells(&first);
    let mut second = futures(&[1]).0;
    for _ in 0..3 {
        assert!(first.next().now_or_never().flatten().is_some());
    }
    drop(first);
    let third = futures(&[1, 1, 1]).0;
    assert_eq!(bells(&third), before);
    assert!(bells(&second).is_disjoint(&before));
    assert_eq!(second.next().now_or_never(), Some(Some(0)));
}

#[test]
fn a_call_is_dropped_when_it_has_ended_or_nobody_waits_for_it() {
    let count = Arc::new(());
    let mut pending = Pending::<Numbered>::default();
    pending.push(holding(&count, Poll::Ready(1)));
    pending.push(holding(&count, Poll::Pending));
    assert_eq!(pending.next().now_or_never(), Some(Some(1)));
    assert_eq!(Arc::strong_count(&count), 2);
    drop(pending);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn who_waited_last_is_not_held_on_to() {
    let (mut pending, polls) = quiet(1);
    pending.push(Box::pin(async { 0 }));
    let waiter = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&waiter));
    let mut cx = Context::from_waker(&waker);
    assert_eq!(pending.poll_next(&mut cx, 1), Poll::Ready(Some(0)));
    assert_eq!(Arc::strong_count(&waiter), 3);
    // The client still has the waker of a call, through which it could wake whoever waits.
    drop(pending);
    assert_eq!(polls.lock().unwrap().len(), 1);
    assert_eq!(Arc::strong_count(&waiter), 2);

    let mut pending = Pending::<Numbered>::default();
    pending.push(Box::pin(async { 0 }));
    assert_eq!(pending.poll_next(&mut cx, 1), Poll::Ready(Some(0)));
    drop(pending);
    assert_eq!(Numbered::idle().with_borrow(Vec::len), 1);
    assert_eq!(Arc::strong_count(&waiter), 2);
}

#[test]
fn a_late_ring_costs_the_next_call_no_more_than_a_poll_in_vain() {
    let mut ended = Pending::<Numbered>::default();
    let (tell, told) = std::sync::mpsc::channel();
    ended.push(Box::pin(poll_fn(move |cx| {
        tell.send(cx.waker().clone()).unwrap();
        Poll::Ready(0)
    })));
    assert_eq!(ended.next().now_or_never(), Some(Some(0)));
    drop(ended);
    let (mut pending, polls) = quiet(1);
    let late = told.recv().unwrap();
    late.wake_by_ref();
    let waiter = Arc::new(Woken::default());
    let first = polled(&mut pending, &polls, &waiter);
    assert!(late.will_wake(&first[0].1));
    assert!(polled(&mut pending, &polls, &waiter).is_empty());
    late.wake();
    assert_eq!(numbers(&polled(&mut pending, &polls, &waiter)), [0]);
    assert!(polled(&mut pending, &polls, &waiter).is_empty());
}

#[test]
fn a_thread_keeps_no_more_memory_than_it_may() {
    let all = [(); KEPT + 3].map(|()| futures(&[1]).0);
    for mut pending in all {
        assert_eq!(pending.next().now_or_never(), Some(Some(0)));
    }
    assert_eq!(Numbered::idle().with_borrow(Vec::len), KEPT);
    let mut many = futures(&[1; KEPT_SEATS + 3]).0;
    while many.next().now_or_never().flatten().is_some() {}
    drop(many);
    let most = Numbered::idle().with_borrow(|idle| {
        let seats = idle.iter().map(|memory| memory.free.len());
        seats.max()
    });
    assert_eq!(most, Some(KEPT_SEATS));
}

impl Woken {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn who_has_use_for_several_is_woken_when_so_many_ask() {
    let (mut pending, polls) = quiet(4);
    let waiter = Arc::new(Woken::default());
    let wakers = polled_for(3, &mut pending, &polls, &waiter);
    let ring = |number: usize| wakers[number].1.wake_by_ref();
    for number in [2, 0, 2, 0] {
        ring(number);
        assert_eq!(waiter.take(), 0);
    }
    ring(3);
    assert_eq!(waiter.take(), 1);
    let asked = polled_for(1, &mut pending, &polls, &waiter);
    assert_eq!(numbers(&asked), [0, 2, 3]);
}

#[test]
fn calls_that_take_several_polls_do_not_wait_for_each_other() {
    let (mut pending, polls) = quiet(3);
    let waiter = Arc::new(Woken::default());
    let wakers = polled_for(2, &mut pending, &polls, &waiter);
    wakers[0].1.wake_by_ref();
    wakers[1].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
    // These took it in vain. Another one may have rung before that was seen, and was not enough.
    let asked = polled_for(2, &mut pending, &polls, &waiter);
    assert_eq!(numbers(&asked), [0, 1]);
    assert_eq!(waiter.take(), 1);
    polled_for(2, &mut pending, &polls, &waiter);
    assert_eq!(waiter.take(), 0);
    wakers[2].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
    let mut taken = pending.take();
    polled_for(2, &mut taken, &polls, &waiter);
    wakers[1].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
}

#[test]
fn a_call_that_asks_for_the_next_poll_in_its_first_one_gets_it() {
    let (mut pending, polls) = futures(&[2]);
    for _ in 0..2 {
        pending.push(Box::pin(std::future::pending()));
    }
    let waiter = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&waiter));
    let mut cx = Context::from_waker(&waker);
    assert!(pending.poll_next(&mut cx, 2).is_pending());
    assert_eq!(waiter.take(), 1);
    assert_eq!(pending.poll_next(&mut cx, 2), Poll::Ready(Some(0)));
    assert_eq!(*polls.lock().unwrap(), [0, 0]);
}

#[test]
fn whoever_hurries_is_woken_by_each() {
    let (mut pending, polls) = quiet(3);
    let waiter = Arc::new(Woken::default());
    let wakers = polled_for(2, &mut pending, &polls, &waiter);
    wakers[0].1.wake_by_ref();
    assert_eq!(waiter.take(), 0);
    pending.be_eager();
    let asked = polled_for(2, &mut pending, &polls, &waiter);
    assert_eq!(numbers(&asked), [0]);
    wakers[1].1.wake_by_ref();
    assert_eq!(waiter.take(), 1);
}

#[test]
fn the_next_calls_do_not_inherit_the_haste() {
    let (mut hasty, _) = futures(&[2, 2]);
    hasty.be_eager();
    while !hasty.is_empty() {
        hasty.next().now_or_never();
    }
    let bell = Arc::as_ptr(&hasty.memory.as_ref().unwrap().free.last().unwrap().bell);
    drop(hasty);
    let (mut pending, polls) = quiet(2);
    let seats = &pending.memory.as_ref().unwrap().calls;
    assert!(seats.iter().any(|seat| Arc::as_ptr(&seat.bell) == bell));
    let waiter = Arc::new(Woken::default());
    let wakers = polled_for(2, &mut pending, &polls, &waiter);
    assert_eq!(waiter.take(), 0);
    wakers[0].1.wake_by_ref();
    assert_eq!(waiter.take(), 0);
}

#[test]
fn no_count_of_another_thread_is_lost() {
    let (ask, asked) = std::sync::mpsc::channel::<Waker>();
    let ringer = std::thread::spawn(move || asked.into_iter().for_each(Waker::wake));
    let (end, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..5_000 {
            let mut pending = Pending::<Numbered>::default();
            for number in 0..5 {
                pending.push(ringing_once(number, ask.clone()));
            }
            // All must be counted, or the last one never wakes anybody.
            futures::executor::block_on(async {
                for left in [5, 4, 3, 2, 1] {
                    assert!(poll_fn(|cx| pending.poll_next(cx, left)).await.is_some());
                }
            });
        }
        end.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).unwrap();
    ringer.join().unwrap();
}

/// Asks another thread to wake it, and is ready then.
fn ringing_once(number: usize, ask: std::sync::mpsc::Sender<Waker>) -> Numbered {
    let mut is_first = true;
    Box::pin(poll_fn(move |cx| {
        if !mem::take(&mut is_first) {
            return Poll::Ready(number);
        }
        ask.send(cx.waker().clone()).unwrap();
        Poll::Pending
    }))
}
