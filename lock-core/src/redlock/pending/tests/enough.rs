//! A waiter who has use for several answers, and none for fewer.

use std::time::Duration;

use super::*;

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
