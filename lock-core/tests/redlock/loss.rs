//! A holder hears that the lock is lost, and a scoped run ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Command, Operation, RedisNode, Subscription};
use lock_core::{
    DistributedLock, DistributedLockExt, ExtendError, LockRequest, Loss, NodeError, Redlock,
    ReleaseError, Reply, WithLockError,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

fn request(ttl_in_millis: u32) -> LockRequest {
    LockRequest::new(KEY).ttl(ttl_in_millis * MS)
}

fn lock() -> (Vec<MemoryNode>, Redlock<MemoryNode>) {
    let nodes = nodes(5);
    let lock = locks(&nodes);
    (nodes, lock)
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_extends_is_lost_when_its_validity_ends() {
    let (nodes, lock) = lock();
    let guard = lock.lock(request(1000)).await.unwrap();
    let lost = guard.lost();
    // No network is needed to know.
    nodes.iter().for_each(|node| node.set_fault(Fault::Hang));
    let start = Instant::now();
    assert_eq!(lost.await, Loss::Expired);
    assert!(!guard.is_valid());
    // The validity is 988 ms.
    assert!(start.elapsed() < 1000 * MS, "{:?}", start.elapsed());
    assert_eq!(guard.lost().await, Loss::Expired, "it stays lost");
}

#[tokio::test(start_paused = true)]
async fn an_extension_puts_the_end_off() {
    let (_, lock) = lock();
    let guard = lock.lock(request(1000)).await.unwrap();
    let lost = guard.lost();
    sleep(500 * MS).await;
    guard.extend(5000 * MS).await.unwrap();
    let start = Instant::now();
    assert_eq!(lost.await, Loss::Expired);
    assert!(start.elapsed() > 4000 * MS, "{:?}", start.elapsed());
}

/// What was called later overtakes extensions, as on a connection that was replaced.
#[derive(Debug)]
struct Overtaken(MemoryNode);

#[async_trait]
impl RedisNode for Overtaken {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        if matches!(command.operation(), Operation::Extend { .. }) {
            sleep(5 * MS).await;
        }
        self.0.execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.0.label()
    }
}

#[tokio::test(start_paused = true)]
async fn who_releases_a_lock_while_he_extends_it_does_not_lose_it() {
    let lock = Redlock::new(nodes(5).into_iter().map(Overtaken)).unwrap();
    let guard = lock.lock(request(1000)).await.unwrap();
    let lost = guard.lost();
    let (extended, released) = tokio::join!(guard.extend(1000 * MS), guard.release());
    assert!(matches!(extended, Err(ExtendError::Lost)));
    released.unwrap();
    assert!(timeout(60_000 * MS, lost).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_says_not_yours_ends_it_at_once() {
    let (nodes, lock) = lock();
    let guard = lock.lock(request(10_000)).await.unwrap();
    let (one, other) = (guard.lost(), tokio::spawn(guard.lost()));
    assert!(nodes[..3].iter().all(|node| node.remove(KEY)));
    let start = Instant::now();
    assert!(matches!(
        guard.extend(10_000 * MS).await,
        Err(ExtendError::Lost)
    ));
    assert_eq!(one.await, Loss::Revoked);
    assert_eq!(other.await.unwrap(), Loss::Revoked);
    assert!(start.elapsed() < 1000 * MS);
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, Loss::Revoked, "it stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_no_loss() {
    let (_, lock) = lock();
    for is_dropped in [false, true] {
        let guard = lock.lock(request(1000)).await.unwrap();
        let (before, mut after) = (guard.lost(), None);
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
            after = Some(guard.lost());
        }
        assert!(timeout(60_000 * MS, before).await.is_err());
        if let Some(after) = after {
            assert!(timeout(60_000 * MS, after).await.is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_came_too_late_is_a_loss() {
    let (_, lock) = lock();
    for is_dropped in [false, true] {
        let guard = lock.lock(request(1000)).await.unwrap();
        let lost = guard.lost();
        // Nobody polls it: the process stood still when the validity ended.
        sleep(995 * MS).await;
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.ok();
            assert_eq!(timeout(MS, guard.lost()).await, Ok(Loss::Expired));
        }
        assert_eq!(timeout(MS, lost).await, Ok(Loss::Expired));
    }
}

#[tokio::test(start_paused = true)]
async fn a_scoped_run_holds_the_lock_and_gives_it_back() {
    let (nodes, lock) = lock();
    let lock: Arc<dyn DistributedLock> = Arc::new(lock);
    let (seen, other) = (nodes.clone(), Arc::clone(&lock));
    // Spawned, which proves that it is Send.
    let run = tokio::spawn(async move {
        lock.with_lock("k", async |guard| {
            assert!(guard.is_valid());
            assert!(seen.iter().all(|node| node.get("k").is_some()));
            sleep(100 * MS).await;
            Err::<(), _>("its own error")
        })
        .await
    });
    sleep(50 * MS).await;
    assert!(other.try_lock("k").await.unwrap().is_none());
    assert_eq!(run.await.unwrap().unwrap(), Err("its own error"));
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_when_the_lock_is_lost() {
    let (_, lock) = lock();
    let is_done = AtomicBool::new(false);
    let run = lock.with_lock(request(1000), async |_| {
        sleep(5000 * MS).await;
        is_done.store(true, Ordering::SeqCst);
    });
    assert!(matches!(run.await, Err(WithLockError::Lost(Loss::Expired))));
    assert!(!is_done.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_ready_is_kept_with_the_news_that_the_lock_was_lost() {
    let (nodes, lock) = lock();
    // The lock is gone before the body ends, without a moment at which it could be dropped.
    let run = lock.with_lock(request(1000), async |_| {
        assert!(nodes.iter().all(|node| node.remove(KEY)));
        Err::<(), _>("its own error")
    });
    let error = run.await.unwrap_err();
    assert_eq!(error.to_string(), "done, but the lock was no longer held");
    assert!(matches!(
        &error,
        WithLockError::NotReleased {
            error: ReleaseError::NotHeld,
            ..
        }
    ));
    assert_eq!(error.into_output(), Some(Err("its own error")));
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_quorum_is_told_beside_the_result() {
    let (nodes, lock) = lock();
    let run = lock.with_lock("k", async |_| {
        nodes[..3]
            .iter()
            .for_each(|node| node.set_fault(Fault::Refuse));
        7
    });
    match run.await {
        Err(WithLockError::NotReleased {
            output: 7,
            error: ReleaseError::Unavailable { .. },
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_or_is_aborted_releases() {
    let (nodes, lock) = lock();
    let is_free = || nodes.iter().all(|node| node.keys().is_empty());
    let panicking = lock.clone();
    let run = tokio::spawn(async move {
        panicking
            .with_lock("k", async |_| panic!("on purpose"))
            .await
            .ok();
    });
    let panic = run.await.unwrap_err().into_panic();
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "on purpose");
    sleep(MS).await;
    assert!(is_free());

    let run = tokio::spawn(async move {
        lock.with_lock("k", async |_| sleep(60_000 * MS).await)
            .await
    });
    sleep(MS).await;
    assert!(!is_free());
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    sleep(MS).await;
    assert!(is_free());
}

#[tokio::test(start_paused = true)]
async fn a_body_does_not_run_without_the_lock() {
    let (_, lock) = lock();
    let _guard = lock.lock("k").await.unwrap();
    let request = LockRequest::new("k").max_wait(100 * MS);
    let run = lock.with_lock(request, async |_| panic!("it ran"));
    assert!(matches!(run.await, Err(WithLockError::Acquire(_))));
}
