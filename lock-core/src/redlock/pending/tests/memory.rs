//! The memory of calls that have ended, for the next ones.

use super::*;

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
