use super::*;
use crate::runtime::ambient;
use ::tokio::runtime::{Builder, Runtime as Tokio};
use futures::executor::block_on;
use std::cell::RefCell;
use std::future::pending;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(5);

fn current() -> TokioRuntime {
    TokioRuntime::current().unwrap()
}

/// A tokio runtime that a thread of its own drives, so that it runs also when nobody waits for it.
fn driven(enable_time: bool) -> Tokio {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    if enable_time {
        builder.enable_time();
    }
    builder.build().unwrap()
}

fn ended() -> TokioRuntime {
    let tokio = driven(true);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    drop(tokio);
    runtime
}

#[::tokio::test(start_paused = true)]
async fn with_a_paused_clock_an_hour_passes_at_once_and_now_moves_by_it() {
    let runtime = current();
    let start = runtime.now();
    runtime.sleep(HOUR).await;
    assert!(runtime.now() - start >= HOUR);
}

#[::tokio::test(start_paused = true)]
async fn a_paused_clock_stands_still_until_it_is_advanced() {
    let runtime = current();
    let start = runtime.now();
    thread::sleep(SHORT);
    assert_eq!(runtime.now(), start);
    ::tokio::time::advance(SHORT).await;
    assert_eq!(runtime.now(), start + SHORT);
}

#[::tokio::test(start_paused = true)]
async fn another_thread_sees_the_paused_clock_too() {
    let runtime = current();
    let start = runtime.now();
    runtime.sleep(HOUR).await;
    let elsewhere = thread::spawn({
        let runtime = runtime.clone();
        move || runtime.now()
    });
    assert_eq!(elsewhere.join().unwrap(), runtime.now());
    assert!(runtime.now() - start >= HOUR);
}

#[::tokio::test(start_paused = true)]
async fn a_sleep_counts_from_the_call_not_from_its_first_poll() {
    let runtime = current();
    let sleep = runtime.sleep(HOUR);
    ::tokio::time::advance(HOUR * 2).await;
    let before = runtime.now();
    sleep.await;
    assert_eq!(runtime.now(), before);
}

#[::tokio::test]
async fn now_never_goes_back_when_the_clock_is_paused_and_resumed() {
    let runtime = current();
    let mut last = runtime.now();
    for round in 0..100 {
        if round % 2 == 0 {
            ::tokio::time::pause();
        } else {
            ::tokio::time::resume();
        }
        for _ in 0..100 {
            let next = runtime.now();
            assert!(next >= last, "{next:?} after {last:?}");
            last = next;
        }
    }
}

#[::tokio::test(start_paused = true)]
async fn sleeps_end_in_the_order_of_their_deadlines() {
    let runtime = current();
    let (ended, order) = mpsc::channel();
    for (number, hours) in [3, 1, 2].into_iter().enumerate() {
        let (sleep, ended) = (runtime.sleep(HOUR * hours), ended.clone());
        runtime.spawn(Box::pin(async move {
            sleep.await;
            ended.send(number).unwrap();
        }));
    }
    drop(ended);
    runtime.sleep(HOUR * 4).await;
    assert_eq!(order.iter().collect::<Vec<_>>(), [1, 2, 0]);
}

#[::tokio::test(start_paused = true)]
async fn a_sleep_of_zero_is_ready_at_once_and_the_longest_never() {
    let runtime = current();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(runtime.sleep(Duration::ZERO).as_mut().poll(cx).is_ready());
    for long in [Duration::MAX, FOREVER_AND_A_DAY] {
        let mut sleep = runtime.sleep(long);
        assert!(sleep.as_mut().poll(cx).is_pending());
        runtime.sleep(HOUR).await;
        assert!(sleep.as_mut().poll(cx).is_pending());
    }
}

const FOREVER_AND_A_DAY: Duration = Duration::from_secs(3600 * 24 * 365 * 31);

#[test]
fn a_sleep_polled_outside_the_runtime_ends() {
    let tokio = driven(true);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let start = runtime.now();
    block_on(runtime.sleep(SHORT));
    assert!(runtime.now() - start >= SHORT);
    // Tokio's timer was not even tried.
    assert!(!is_known_timerless(runtime.handle.id()));
}

#[test]
fn a_sleep_polled_outside_a_runtime_that_nobody_drives_ends() {
    let tokio = Builder::new_current_thread().enable_time().build().unwrap();
    block_on(TokioRuntime::new(tokio.handle().clone()).sleep(SHORT));
}

#[test]
fn a_sleep_polled_in_another_runtime_ends() {
    let (ours, other) = (driven(true), driven(false));
    let runtime = TokioRuntime::new(ours.handle().clone());
    other.block_on(runtime.sleep(SHORT));
}

#[test]
fn a_sleep_ends_after_the_runtime_has_ended() {
    let runtime = ended();
    let start = runtime.now();
    block_on(runtime.sleep(SHORT));
    assert!(runtime.now() - start >= SHORT);
}

#[test]
fn a_sleep_polled_in_the_context_of_an_ended_runtime_ends() {
    let runtime = ended();
    runtime.handle.block_on(runtime.sleep(SHORT));
    let _context = runtime.handle.enter();
    block_on(runtime.sleep(SHORT));
}

#[test]
fn a_sleep_that_began_inside_lasts_its_full_time_when_the_runtime_ends() {
    let tokio = driven(true);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let start = runtime.now();
    let mut sleep = runtime.sleep(SHORT * 4);
    let first = tokio.block_on(async {
        let cx = &mut Context::from_waker(Waker::noop());
        sleep.as_mut().poll(cx)
    });
    drop(tokio);
    if first.is_pending() {
        block_on(sleep);
    }
    assert!(runtime.now() - start >= SHORT * 4);
}

#[test]
fn a_sleep_that_began_inside_ends_when_nobody_drives_the_runtime_any_more() {
    let tokio = Builder::new_current_thread().enable_time().build().unwrap();
    let mut sleep = TokioRuntime::new(tokio.handle().clone()).sleep(SHORT * 4);
    let first = tokio.block_on(async {
        let cx = &mut Context::from_waker(Waker::noop());
        sleep.as_mut().poll(cx)
    });
    if first.is_pending() {
        block_on(sleep);
    }
}

#[test]
fn a_runtime_without_timers_gets_the_other_timer() {
    let tokio = driven(false);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let (start, inner) = (runtime.now(), runtime.clone());
    tokio.block_on(async move {
        inner.sleep(SHORT).await;
        inner.sleep(SHORT).await;
    });
    assert!(runtime.now() - start >= SHORT * 2);
    assert!(is_known_timerless(runtime.handle.id()));
}

#[test]
fn a_spawned_task_runs_whoever_spawns_it() {
    let tokio = driven(true);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let (done, result) = mpsc::channel();
    runtime.spawn(Box::pin(async move {
        done.send(Handle::current().id()).unwrap();
    }));
    assert_eq!(result.recv().unwrap(), tokio.handle().id());
}

#[test]
fn a_task_spawned_after_the_end_is_dropped() {
    let runtime = ended();
    let (held, result) = mpsc::channel::<()>();
    runtime.spawn(Box::pin(async move {
        let _held = held;
        pending::<()>().await;
    }));
    assert!(result.recv().is_err());
}

#[test]
fn it_works_while_the_calling_thread_ends() {
    struct AtExit(TokioRuntime, mpsc::Sender<Duration>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let (sleep, done) = (self.0.sleep(SHORT), self.1.clone());
            self.0.spawn(Box::pin(async move {
                sleep.await;
                done.send(SHORT).unwrap();
            }));
            self.1.send(self.0.now()).unwrap();
        }
    }
    thread_local! {
        static BEFORE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let tokio = driven(true);
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let (sender, receiver) = mpsc::channel();
    // The system drops a thread's values in some order of their first uses, so that one of these
    // two is dropped when tokio's own value is gone.
    thread::spawn(move || {
        BEFORE.set(Some(AtExit(runtime.clone(), sender.clone())));
        drop(Handle::try_current());
        AFTER.set(Some(AtExit(runtime, sender)));
    });
    assert_eq!(receiver.iter().count(), 4);
}

#[test]
fn the_ambient_runtime_is_tokio_inside_it_and_the_thread_runtime_outside() {
    assert!(format!("{:?}", ambient()).starts_with("ThreadRuntime"));
    let inside = driven(true).block_on(async { format!("{:?}", ambient()) });
    assert!(inside.starts_with("TokioRuntime"), "{inside}");
}
