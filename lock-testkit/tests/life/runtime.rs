//! A lock on a runtime of its user's, which can be starved, and which can end.

use futures::FutureExt;
use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Loss, Redlock, ReleaseError};
use lock_testkit::RedisServer;

use super::process::OtherProcess;
use super::support::*;
use crate::backend::Node;

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
        let released = tokio::time::timeout(LONG, released(&kept)).await.unwrap();
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

fn all_have(servers: &[RedisServer], token: &str) -> bool {
    let has = |server| get(server, KEY).as_deref() == Some(token);
    servers.iter().all(has)
}

/// C07. The runtime has one thread, which the critical section blocks.
#[apply(async_test!)]
async fn a_starved_holder_knows_at_once_that_the_lock_is_lost_and_leaves_its_successor_alone() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let guard = locks.lock(extended(KEY, 3 * SECOND)).await.unwrap();
    let mut successor = OtherProcess::start("take over", &servers);
    sleep(4 * SECOND).await;
    assert!(guard.is_valid(), "it is extended");
    let lost = guard.lost();
    // Blocks, until the other process holds the lock.
    let token = successor.next();
    assert!(!guard.is_valid());
    let loss = timeout(LONG, lost).await.unwrap();
    assert!(matches!(loss, Loss::Expired | Loss::Revoked), "{loss:?}");
    // No late extension revives it.
    sleep(2 * SECOND).await;
    assert!(!guard.is_valid());
    let released = released(&guard).await;
    assert!(
        matches!(released, Err(ReleaseError::NotHeld)),
        "{released:?}"
    );
    drop(guard);
    sleep(500 * MS).await;
    assert!(all_have(&servers, &token));
}
