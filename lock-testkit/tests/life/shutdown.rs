//! The end of a program.

use futures::FutureExt;
use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Redlock};

use super::process::{OtherProcess, told};
use super::support::*;
use crate::backend::Node;

/// C27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

/// C27: the clients, which belong to the runtime, are closed before the guards.
#[test]
fn guards_that_outlive_their_runtime_do_no_harm_and_can_be_released_on_another() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let servers = servers(3);
    let first = runtime();
    let (locks, guards) = first.block_on(async {
        let locks = locks(&servers).await;
        let mut guards = Vec::new();
        for key in ["a", "b", "c"] {
            let guard = locks.lock(extended(key, 60 * SECOND)).await.unwrap();
            granted_everywhere(&guard).await;
            guards.push(guard);
        }
        (locks, guards)
    });
    drop(first);
    let mut guards = guards.into_iter();
    // Nobody is left who could send anything: the ttl ends this one.
    drop(guards.next());
    let kept = guards.next().unwrap();
    runtime().block_on(async {
        let released = tokio::time::timeout(LONG, kept.release()).await.unwrap();
        released.unwrap();
        let shut = tokio::time::timeout(LONG, locks.shutdown()).await.unwrap();
        shut.unwrap();
        let refused = locks.try_lock(LockRequest::new("d")).await;
        assert!(refused.is_err());
    });
    // A release returns when a quorum has answered; what it leaves to the background ended with the
    // first runtime. The shutdown waits for all servers.
    for (key, most) in [("b", 1), ("c", 0)] {
        let holding = servers.iter().filter(|server| get(server, key).is_some());
        let holding = holding.count();
        assert!(holding <= most, "{key}: {holding}");
    }
}

/// Starts to acquire when it is dropped.
struct AcquireAtTheEnd(Redlock<Node>);

impl Drop for AcquireAtTheEnd {
    fn drop(&mut self) {
        let request = LockRequest::new(KEY);
        let acquired = self.0.acquire(&request).now_or_never();
        assert!(!matches!(acquired, Some(Ok(_))), "{acquired:?}");
    }
}

#[test]
fn a_call_that_is_made_while_its_runtime_ends_does_not_hang() {
    let servers = servers(3);
    let acquire = AcquireAtTheEnd(builder(urls(&servers)).build().unwrap());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            tokio::spawn(async move {
                let _acquire = acquire;
                std::future::pending::<()>().await
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).unwrap();
}
