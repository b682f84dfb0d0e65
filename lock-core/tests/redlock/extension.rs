//! Rule 8: extending never creates, never shortens, never revives.

use std::time::Duration;

use lock_core::{DistributedLockExt, ExtendError, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn an_extension_lengthens_and_never_shortens() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(10_000 * MS))
        .await
        .unwrap();
    settle().await;
    guard.extend(60_000 * MS).await.unwrap();
    let long = guard.remaining();
    assert_eq!(long, (60_000 - 602) * MS);
    guard.extend(5_000 * MS).await.unwrap();
    assert_eq!(guard.remaining(), long);
    for node in &nodes {
        assert!(node.pttl(KEY) > 59_000, "{}", node.pttl(KEY));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_gone_at_a_quorum_is_lost_and_nothing_is_created() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[0].remove(KEY);
    nodes[2].set_foreign(KEY, "successor");
    let result = guard.extend(60_000 * MS).await;
    assert!(matches!(result, Err(ExtendError::Lost)), "{result:?}");
    // Known to be lost, so no longer valid, and never again.
    assert!(!guard.is_valid());
    let result = guard.extend(60_000 * MS).await;
    assert!(matches!(result, Err(ExtendError::Lost)), "{result:?}");
    settle().await;
    assert_eq!(nodes[0].get(KEY), None);
    assert_eq!(nodes[2].get(KEY).as_deref(), Some(&b"successor"[..]));
    assert_eq!(nodes[2].pttl(KEY), -1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_lock_is_lost_without_asking() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(300 * MS))
        .await
        .unwrap();
    tokio::time::sleep(300 * MS).await;
    let before = nodes[0].calls();
    assert!(matches!(
        guard.extend(60_000 * MS).await,
        Err(ExtendError::Lost)
    ));
    assert_eq!(nodes[0].calls(), before);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_comes_too_late_does_not_revive() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(1_000 * MS))
        .await
        .unwrap();
    tokio::time::sleep(900 * MS).await;
    assert!(guard.is_valid());
    // Sent in time, and answered when 1 s less drift has passed.
    for node in &nodes {
        node.set_fault(Fault::Delay(95 * MS));
    }
    let result = guard.extend(60_000 * MS).await;
    assert!(matches!(result, Err(ExtendError::Lost)), "{result:?}");
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_failed_extension_keeps_the_old_validity_and_releases_nothing() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Refuse);
    let before = guard.remaining();
    let (result, took) = timed(guard.extend(60_000 * MS)).await;
    let Err(ExtendError::Unavailable {
        quorum: 2,
        nodes: reports,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(took, 100 * MS);
    assert_eq!(guard.remaining(), before - took);
    let shown = reports.to_string();
    assert!(shown.contains("memory-1: no answer in 100 ms"), "{shown}");
    assert!(shown.contains("memory-2: connection refused"), "{shown}");
    nodes[0].heal();
    nodes[1].heal();
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    guard.extend(60_000 * MS).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_gets_the_key_back_after_a_round_that_won() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[1].forget();
    guard.extend(60_000 * MS).await.unwrap();
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(guard.votes().granted, 3);
    // It votes from the next round on.
    nodes[0].set_fault(Fault::Refuse);
    guard.extend(60_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    nodes[0].heal();
    tokio::time::sleep(1_100 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_slowest_node_gets_a_forgotten_key_back_too() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[2].forget();
    nodes[2].set_fault(Fault::Delay(20 * MS));
    let (extended, took) = timed(guard.extend(60_000 * MS)).await;
    extended.unwrap();
    assert!(took.is_zero());
    tokio::time::sleep(50 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(guard.votes().granted, 3);
    guard.release().await.unwrap();
    tokio::time::sleep(50 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_back_after_the_release_is_released_too() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[2].forget();
    nodes[2].set_fault(Fault::Delay(20 * MS));
    guard.extend(60_000 * MS).await.unwrap();
    // The node has not answered yet that it forgot the key.
    guard.release().await.unwrap();
    tokio::time::sleep(100 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn two_extensions_that_both_set_a_forgotten_key_again_leave_none_behind() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[0].forget();
    for node in &nodes {
        node.set_fault(Fault::Delay(3 * MS));
    }
    let (first, second) = tokio::join!(guard.extend(60_000 * MS), guard.extend(60_000 * MS));
    first.unwrap();
    second.unwrap();
    tokio::time::sleep(50 * MS).await;
    assert_eq!(guard.votes().granted, 3);
    guard.release().await.unwrap();
    tokio::time::sleep(50 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn bad_ttls_are_refused_before_anything_is_sent() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    let before = nodes[0].calls();
    for ttl in [Duration::ZERO, MS / 1000, MS, Duration::MAX] {
        let result = guard.extend(ttl).await;
        assert!(matches!(result, Err(ExtendError::Invalid(_))), "{result:?}");
    }
    assert_eq!(nodes[0].calls(), before);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_grant_had_no_answer_does_not_count_before_the_doubt_is_over() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    // The client may have sent a release behind the acquire whose answer it did not see, so the
    // key that is there may vanish yet.
    nodes[2].set_fault(Fault::LoseReply);
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    settle().await;
    nodes[2].heal();
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(guard.votes().granted, 2);
    nodes[1].set_fault(Fault::Refuse);
    let result = guard.extend(60_000 * MS).await;
    assert!(
        matches!(result, Err(ExtendError::Unavailable { .. })),
        "{result:?}"
    );
    tokio::time::sleep(20_000 * MS).await;
    guard.extend(60_000 * MS).await.unwrap();
    assert_eq!(guard.votes().granted, 3);
}
