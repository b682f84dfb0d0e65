use super::*;
use futures::executor::block_on;
use futures::future::join_all;
use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

const LONG: Duration = Duration::from_secs(3600);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("in a drop"));
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_sleep_is_ready_only_when_its_time_has_passed() {
    let runtime = ThreadRuntime::shared();
    let start = runtime.now();
    block_on(runtime.sleep(millis(20)));
    assert!(runtime.now() - start >= millis(20));
}

#[test]
fn a_sleep_counts_from_the_call_not_from_its_first_poll() {
    let runtime = ThreadRuntime::shared();
    let mut sleep = runtime.sleep(millis(5));
    std::thread::sleep(millis(6));
    let poll = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_ready());
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    let runtime = ThreadRuntime::shared();
    let (ended, order) = mpsc::channel();
    let sleeps: Vec<_> = [100, 300, 500, 700]
        .map(|ms| runtime.sleep(millis(ms)))
        .into();
    for (number, sleep) in sleeps.into_iter().enumerate().rev() {
        let ended = ended.clone();
        runtime.spawn(Box::pin(async move {
            sleep.await;
            ended.send(number).unwrap();
        }));
    }
    drop(ended);
    assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_called() {
    let runtime = ThreadRuntime::shared();
    let mut sleep = pin!(runtime.sleep(millis(500)));
    let first = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&first));
    let poll = sleep.as_mut().poll(&mut Context::from_waker(&waker));
    if poll.is_pending() {
        // A second poll, with the waker of `block_on`.
        block_on(sleep);
        assert_eq!(first.0.load(Ordering::SeqCst), 0);
        drop(waker);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}

#[test]
fn ten_thousand_timers_all_fire() {
    let runtime = ThreadRuntime::shared();
    let sleeps = (0..10_000).map(|i| runtime.sleep(millis(i % 50)));
    block_on(join_all(sleeps));
}

#[test]
fn a_sleep_of_zero_is_ready_at_once_and_the_longest_never() {
    let runtime = ThreadRuntime::shared();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(runtime.sleep(Duration::ZERO).as_mut().poll(cx).is_ready());
    let mut longest = runtime.sleep(Duration::MAX);
    assert!(longest.as_mut().poll(cx).is_pending());
    let mut very_long = runtime.sleep(Duration::MAX - LONG * 24 * 366);
    assert!(very_long.as_mut().poll(cx).is_pending());
    // The thread waits for the latter, if for anything, and serves others meanwhile.
    block_on(runtime.sleep(millis(1)));
}

#[test]
fn a_panic_in_a_task_leaves_the_others_running() {
    let runtime = ThreadRuntime::shared();
    let (done, result) = mpsc::channel();
    let sleep = runtime.sleep(millis(5));
    runtime.spawn(Box::pin(async move {
        sleep.await;
        done.send("survived").unwrap();
    }));
    runtime.spawn(Box::pin(async { std::panic::resume_unwind(Box::new(1)) }));
    runtime.spawn(Box::pin(async {
        std::panic::resume_unwind(Box::new(Bomb))
    }));
    let bomb = Bomb;
    runtime.spawn(Box::pin(async move {
        let _bomb = bomb;
        pending::<()>().await;
    }));
    assert_eq!(result.recv().unwrap(), "survived");
}

#[test]
fn a_task_is_woken_from_another_thread() {
    let runtime = ThreadRuntime::shared();
    let (sender, receiver) = futures::channel::oneshot::channel();
    let (done, result) = mpsc::channel();
    runtime.spawn(Box::pin(async move {
        done.send(receiver.await.unwrap()).unwrap();
    }));
    std::thread::spawn(move || sender.send(7).unwrap());
    assert_eq!(result.recv().unwrap(), 7);
}

#[test]
fn a_task_that_wakes_itself_while_it_runs_is_polled_again_and_starves_nobody() {
    let runtime = ThreadRuntime::shared();
    let stop = Arc::new(AtomicBool::new(false));
    let (done, result) = mpsc::channel();
    let seen = Arc::clone(&stop);
    runtime.spawn(Box::pin(async move {
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if seen.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        done.send(()).unwrap();
    }));
    block_on(runtime.sleep(millis(5)));
    stop.store(true, Ordering::SeqCst);
    result.recv().unwrap();
}

#[test]
fn a_waker_kept_after_its_task_has_ended_is_harmless() {
    let runtime = ThreadRuntime::shared();
    let (give, take) = mpsc::channel();
    let guard = Arc::new(());
    let held = Arc::clone(&guard);
    runtime.spawn(Box::pin(poll_fn(move |cx| {
        let _held = &held;
        give.send(cx.waker().clone()).unwrap();
        Poll::Ready(())
    })));
    let waker = take.recv().unwrap();
    // The future is dropped although its waker lives.
    while Arc::strong_count(&guard) > 1 {
        std::thread::yield_now();
    }
    waker.wake_by_ref();
    waker.wake();
    block_on(runtime.sleep(millis(1)));
    assert!(take.recv().is_err());
}

#[test]
fn it_works_while_the_calling_thread_ends() {
    struct AtExit(mpsc::Sender<Duration>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let runtime = ThreadRuntime::shared();
            let done = self.0.clone();
            runtime.spawn(Box::pin(async move { done.send(Duration::ZERO).unwrap() }));
            self.0.send(runtime.now()).unwrap();
        }
    }
    thread_local!(static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) });
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || AT_EXIT.set(Some(AtExit(sender))));
    assert_eq!(receiver.iter().count(), 2);
}
#[test]
fn a_plain_thread_waits_for_a_future_that_others_finish() {
    let runtime = ThreadRuntime::shared();
    let before = runtime.now();
    let sleep = async {
        runtime.sleep(millis(20)).await;
        7
    };
    assert_eq!(runtime.block_on(sleep), Ok(7));
    assert!(runtime.now() - before >= millis(20));
}

#[test]
fn a_thread_that_runs_futures_is_told_so_instead_of_hanging() {
    let runtime = ThreadRuntime::shared();
    let inner = async { runtime.block_on(async {}) };
    assert_eq!(runtime.block_on(inner), Ok(Err(BlockOnError)));
    assert_eq!(
        runtime.block_on(async {}),
        Ok(()),
        "the thread is free again"
    );

    let (sender, receiver) = std::sync::mpsc::channel();
    let own = ThreadRuntime::shared();
    runtime.spawn(Box::pin(async move {
        sender.send(own.block_on(async {})).unwrap();
    }));
    assert_eq!(receiver.recv().unwrap(), Err(BlockOnError));
}

#[test]
fn a_panic_of_the_future_leaves_the_thread_free() {
    let runtime = ThreadRuntime::shared();
    let panics = || runtime.block_on(async { panic!("on purpose") });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
    assert!(caught.is_err());
    assert_eq!(runtime.block_on(async {}), Ok(()));
}

#[cfg(feature = "tokio")]
#[test]
fn inside_tokio_it_says_so() {
    let tokio = ::tokio::runtime::Runtime::new().unwrap();
    let runtime = ThreadRuntime::shared();
    let answer = tokio.block_on(async { runtime.block_on(async {}) });
    assert_eq!(answer, Err(BlockOnError));
    assert!(BlockOnError.to_string().contains("inside an async runtime"));
}
