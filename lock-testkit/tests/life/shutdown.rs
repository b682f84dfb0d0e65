//! The end of a program.

use std::sync::{Arc, Mutex};

use lock_core::{DistributedLockExt, Loss, WithLockError};

use super::process::{OtherProcess, told};
use super::support::*;

/// C27.
#[apply(async_test_on_threads!)]
async fn a_process_that_is_told_to_end_leaves_no_lock() {
    let servers = servers(3);
    let process = OtherProcess::start("end on a signal", &servers);
    let (process, held) = told(process).await;
    assert_eq!((held.as_str(), keys(&servers)), ("held", 9));
    process.terminate();
    let (mut process, ended) = told(process).await;
    assert_eq!((ended.as_str(), keys(&servers)), ("ended", 0));
    until("the process ends", LONG, || process.has_ended()).await;
}

/// What was seen of the work of all holders.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// The work of a holder, which may be dropped.
struct Work(Log);

impl Work {
    fn begin(log: &Log) -> Self {
        log.lock().unwrap().push("begin");
        Self(Arc::clone(log))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("end");
    }
}

/// C58.
#[apply(async_test_on_threads!)]
async fn a_shutdown_under_running_work_makes_no_second_holder() {
    let servers = servers(3);
    let rival = locks(&servers).await;
    for (work_takes, shutdown_takes) in [(700 * MS, LONG), (2 * LONG, SECOND)] {
        let (ending, log) = (locks(&servers).await, Log::default());
        let (working, seen) = (ending.clone(), Arc::clone(&log));
        let work = spawn(async move {
            let body = async |_: &_| {
                let _work = Work::begin(&seen);
                sleep(work_takes).await;
            };
            working.with_lock(extended(KEY, 3 * SECOND), body).await
        });
        until("it works", LONG, || !log.lock().unwrap().is_empty()).await;
        let (next, seen) = (rival.clone(), Arc::clone(&log));
        let next = spawn(async move {
            let body = async |_: &_| drop(Work::begin(&seen));
            next.with_lock(extended(KEY, 3 * SECOND), body).await
        });
        ending.shutdown_within(shutdown_takes).await.unwrap();
        let worked = work.await.unwrap();
        match worked {
            Ok(()) => assert!(work_takes < shutdown_takes),
            Err(WithLockError::Lost(Loss::ShutDown)) => assert!(work_takes > shutdown_takes),
            other => panic!("{other:?}"),
        }
        timeout(LONG, next).await.unwrap().unwrap().unwrap();
        let log = log.lock().unwrap();
        assert_eq!(*log, ["begin", "end", "begin", "end"], "two at once");
    }
}

/// C58.
#[apply(async_test_on_threads!)]
async fn the_holder_of_a_guard_hears_of_a_shutdown_while_it_has_the_lock() {
    let servers = Arc::new(servers(3));
    let locks = locks(&servers).await;
    let guard = locks.lock(extended(KEY, 60 * SECOND)).await.unwrap();
    granted_everywhere(&guard).await;
    let (mut lost, seen) = (guard.lost(), Arc::clone(&servers));
    assert!(futures::poll!(&mut lost).is_pending());
    let holder = spawn(async move {
        let loss = lost.await;
        (loss, keys(&seen))
    });
    // It has a tenth of that to react.
    locks.shutdown_within(10 * SECOND).await.unwrap();
    assert_eq!(holder.await.unwrap(), (Loss::ShutDown, 3));
    assert!(!guard.is_valid());
    assert_eq!(keys(&servers), 0);
}

/// C83. What a process has not sent when it has answered is never sent.
#[apply(async_test_on_threads!)]
async fn a_process_that_is_stopped_when_it_has_answered_leaves_no_lock() {
    let servers = servers(3);
    let rival = locks(&servers).await;
    for end in ["release", "scope", "flush", "error"].repeat(3) {
        let process = OtherProcess::start(&format!("answer and {end}"), &servers);
        let (mut process, answered) = told(process).await;
        assert_eq!(answered, "answered");
        until("it has ended", LONG, || process.has_ended()).await;
        // A release returns when a quorum has answered.
        let most = i64::from(matches!(end, "release" | "scope"));
        assert!(keys(&servers) <= most, "{end}: {}", keys(&servers));
        let guard = rival.lock(extended(KEY, 60 * SECOND)).await.unwrap();
        released(&guard).await.unwrap();
        for server in &servers {
            ask(server, &["FLUSHALL"]);
        }
    }
}
