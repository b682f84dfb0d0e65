//! The end of a lock.

use std::error::Error;

use lock_core::{
    AcquireError, DistributedLockExt, LockGuard, LockRequest, ReleaseError, ResumeError,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

fn is_empty(nodes: &[MemoryNode]) -> bool {
    nodes.iter().all(|node| node.keys().is_empty())
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_gone_everywhere_and_nothing_new_is_given() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        let request = LockRequest::new(name).auto_extend(true);
        guards.push(locks.lock(request).await.unwrap());
    }
    locks.clone().shutdown().await.unwrap();
    assert!(
        is_empty(&nodes),
        "also where no quorum had to be waited for"
    );
    assert!(!guards.iter().any(LockGuard::is_valid));
    assert_eq!(guards[0].release().await.ok(), Some(()), "it was released");
    let calls = nodes[0].calls();
    for refused in [locks.lock("d").await.err(), locks.try_lock("d").await.err()] {
        assert!(
            matches!(refused, Some(AcquireError::ShutDown)),
            "{refused:?}"
        );
    }
    drop(guards);
    sleep(60_000 * MS).await;
    assert_eq!(nodes[0].calls(), calls, "nothing is sent any more");
    locks.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told() {
    let nodes = nodes(5);
    let (locks, other) = (locks(&nodes), locks(&nodes));
    let _guard = other.lock(KEY).await.unwrap();
    let waiter = locks.clone();
    let waiting = tokio::spawn(async move {
        waiter
            .lock(LockRequest::new(KEY).max_wait(None))
            .await
            .map(drop)
    });
    sleep(1000 * MS).await;
    locks.shutdown().await.unwrap();
    assert!(matches!(
        waiting.await.unwrap(),
        Err(AcquireError::ShutDown)
    ));
    settle().await;
    assert!(
        nodes.iter().all(|node| node.keys() == [KEY.as_bytes()]),
        "the other's"
    );
}

#[tokio::test(start_paused = true)]
async fn guards_dropped_just_before_are_waited_for() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[4].set_fault(Fault::Delay(20 * MS));
    drop(guard);
    locks.shutdown().await.unwrap();
    assert!(is_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn an_acquire_under_way_does_not_slip_through() {
    for delay in 0..12 {
        let nodes = nodes(5);
        let locks = locks(&nodes);
        nodes
            .iter()
            .for_each(|node| node.set_fault(Fault::Delay(5 * MS)));
        let acquiring = locks.clone();
        let acquiring = tokio::spawn(async move { acquiring.lock(KEY).await });
        sleep(delay * MS).await;
        locks.shutdown().await.unwrap();
        match acquiring.await.unwrap() {
            Ok(guard) => assert!(!guard.is_valid()),
            Err(error) => assert!(matches!(error, AcquireError::ShutDown), "{error}"),
        }
        assert!(is_empty(&nodes), "after {delay} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_handed_over_and_resumed_in_one_process_is_released() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    // Keeps the first attempt for longer than its guard.
    let lost = guard.lost();
    let lease = guard.into_lease().unwrap();
    let resumed = locks.resume(&lease).await.unwrap();
    drop(lost);
    locks.shutdown().await.unwrap();
    assert!(is_empty(&nodes));
    assert!(!resumed.is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_resumes_meanwhile_is_told() {
    let nodes = nodes(5);
    let (locks, other) = (locks(&nodes), locks(&nodes));
    let lease = other.lock(KEY).await.unwrap().into_lease().unwrap();
    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::Delay(5 * MS)));
    let resuming = locks.clone();
    let resuming = tokio::spawn(async move { resuming.resume(&lease).await.map(drop) });
    sleep(MS).await;
    locks.shutdown().await.unwrap();
    let refused = resuming.await.unwrap();
    assert!(matches!(refused, Err(ResumeError::ShutDown)), "{refused:?}");
    assert!(is_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_answer_are_not_waited_for_longer_than_told() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[..3]
        .iter()
        .for_each(|node| node.set_fault(Fault::Hang));
    let (result, took) = timed(locks.shutdown_within(30 * MS)).await;
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "1 locks were not released within 30 ms");
    assert!(took < 40 * MS, "{took:?}");
    nodes[..3].iter().for_each(MemoryNode::heal);
    sleep(200 * MS).await;
    assert!(is_empty(&nodes), "it went on in the background");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_named() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[1..]
        .iter()
        .for_each(|node| node.set_fault(Fault::Refuse));
    let error = locks.shutdown().await.unwrap_err();
    assert_eq!(error.unreleased, 1);
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("memory-2: connection refused"), "{cause}");
    assert!(matches!(
        error.source,
        Some(ReleaseError::Unavailable { .. })
    ));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nodes_were_too_slow_for_is_tried_once_more() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[..3]
        .iter()
        .for_each(|node| node.set_fault(Fault::Hang));
    let recovering = nodes.clone();
    tokio::spawn(async move {
        sleep(150 * MS).await;
        recovering[..3].iter().for_each(MemoryNode::heal);
    });
    locks.shutdown().await.unwrap();
    settle().await;
    assert!(is_empty(&nodes));
    drop(guard);
}
