//! Dropping a future at each of its awaits leaves nothing behind.

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, ReleaseError};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

/// Nodes that answer one after the other, so that a round has many awaits.
fn slow_nodes() -> Vec<MemoryNode> {
    let nodes = nodes(5);
    for (node, delay) in nodes.iter().zip([5, 15, 25, 35, 45]) {
        node.set_fault(Fault::Delay(delay * MS));
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_no_key() {
    let request = LockRequest::new(KEY).ttl(60_000 * MS);
    let mut finished = false;
    for polls in 0..20 {
        let nodes = slow_nodes();
        let locks = locks(&nodes);
        let result = drop_after(polls, locks.acquire(&request)).await;
        finished |= result.is_some();
        drop(result);
        tokio::time::sleep(200 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0], "after {polls} polls");
    }
    assert!(finished);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_acquire_dropped_at_any_await_leaves_the_holder_alone() {
    for polls in 0..30 {
        let nodes = slow_nodes();
        let locks = locks(&nodes);
        let holder = locks.lock(KEY).await.unwrap();
        tokio::time::sleep(100 * MS).await;
        assert!(drop_after(polls, locks.lock(KEY)).await.is_none());
        tokio::time::sleep(200 * MS).await;
        for node in &nodes {
            assert_eq!(node.get(KEY).as_deref(), Some(holder.token().as_bytes()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_await_goes_on_and_can_be_called_again() {
    for polls in 0..10 {
        let nodes = slow_nodes();
        let locks = locks(&nodes);
        let guard = locks.lock(KEY).await.unwrap();
        let first = drop_after(polls, guard.release()).await;
        assert!(matches!(first, None | Some(Ok(()))));
        if polls > 0 {
            assert!(!guard.is_valid());
        }
        // The second call has the answer of the first: the lock was held and is released.
        guard.release().await.unwrap();
        guard.release().await.unwrap();
        tokio::time::sleep(100 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0], "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_dropped_at_any_await_keeps_the_old_validity_and_the_lock() {
    for polls in 0..10 {
        let nodes = slow_nodes();
        let locks = locks(&nodes);
        let guard = locks
            .lock(LockRequest::new(KEY).ttl(10_000 * MS))
            .await
            .unwrap();
        let (before, at) = (guard.remaining(), tokio::time::Instant::now());
        let extended = drop_after(polls, guard.extend(20_000 * MS)).await;
        if extended.is_none() {
            assert_eq!(guard.remaining(), before - at.elapsed());
        }
        assert!(guard.is_valid());
        drop(guard);
        tokio::time::sleep(200 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0], "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases_from_any_thread() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    for _ in 0..3 {
        let guard = locks.lock(KEY).await.unwrap();
        std::thread::spawn(move || drop(guard)).join().unwrap();
        settle().await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn two_releases_at_once_have_one_answer() {
    let nodes = slow_nodes();
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let (first, second) = tokio::join!(guard.release(), guard.release());
    first.unwrap();
    second.unwrap();
    for node in &nodes {
        node.forget();
    }
    let guard = locks.lock(KEY).await.unwrap();
    tokio::time::sleep(100 * MS).await;
    for node in &nodes {
        node.forget();
    }
    let (first, second) = tokio::join!(guard.release(), guard.release());
    assert!(matches!(first, Err(ReleaseError::NotHeld)));
    assert!(matches!(second, Err(ReleaseError::NotHeld)));
}
