//! Rule 4: a node that hangs gets one acquire at a time, and nothing grows.

use std::pin::pin;

use futures::poll;
use lock_core::{AcquireError, DistributedLockExt, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_hung_node_is_asked_by_one_acquire_at_a_time() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Hang);
    // The first calls find out.
    let guard = locks.lock(KEY).await.unwrap();
    guard.release().await.unwrap();
    tokio::time::sleep(150 * MS).await;
    let before = nodes[0].calls().acquire;
    let mut waiting_most = 0;
    for i in 0..500 {
        let guard = locks.lock(format!("k{i}")).await.unwrap();
        assert!(guard.votes().granted <= 2);
        guard.release().await.unwrap();
        waiting_most = waiting_most.max(nodes[0].waiting());
        tokio::time::sleep(2 * MS).await;
    }
    // One second, one probe per node timeout.
    let probes = nodes[0].calls().acquire - before;
    assert!((5..=12).contains(&probes), "{probes}");

    nodes[0].heal();
    tokio::time::sleep(1_100 * MS).await;
    for _ in 0..2 {
        let guard = locks.lock(KEY).await.unwrap();
        settle().await;
        assert_eq!(guard.votes().granted, 3);
        guard.release().await.unwrap();
        settle().await;
    }
    assert!(nodes[0].keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_callers_at_once_do_not_pile_up_at_a_hung_node() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Hang);
    let _guard = locks.lock("first").await.unwrap();
    tokio::time::sleep(150 * MS).await;
    let before = nodes[0].calls().acquire;
    let calls = (0..100).map(|i| locks.lock(format!("k{i}")));
    let guards = futures::future::join_all(calls).await;
    assert!(guards.iter().all(Result::is_ok));
    assert_eq!(nodes[0].calls().acquire - before, 1);
}

#[tokio::test(start_paused = true)]
async fn who_skips_a_suspect_node_says_so() {
    let nodes = nodes(1);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Hang);
    assert!(locks.try_lock(KEY).await.is_err());
    let (first, second) = tokio::join!(locks.try_lock("a"), locks.try_lock("b"));
    assert!(matches!(first, Err(AcquireError::Unavailable(_))));
    let Err(AcquireError::Unavailable(outage)) = second else {
        panic!("{second:?}");
    };
    let shown = outage.to_string();
    assert!(
        shown.contains("not asked: an earlier call has had no answer"),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_its_caller_does_not_poll_keeps_nobody_else_out() {
    let nodes = nodes(1);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Hang);
    let request = LockRequest::new(KEY).ttl(1_000 * MS);
    assert!(locks.try_lock(&request).await.is_err());
    // Nothing is owed to the node any more, whose answer would tell that it is well.
    tokio::time::sleep(3_000 * MS).await;
    let mut stalled = pin!(locks.lock("stalled"));
    assert!(poll!(stalled.as_mut()).is_pending());
    nodes[0].heal();
    let guard = locks.lock(LockRequest::new(KEY).max_wait(2_000 * MS)).await;
    assert!(guard.is_ok(), "{guard:?}");
    assert!(stalled.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_a_few_milliseconds_does_not_close_a_slow_node_to_others() {
    let nodes = nodes(1);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Delay(5 * MS));
    let hasty = LockRequest::new("hasty").ttl(20 * MS);
    assert!(locks.try_lock(hasty).await.is_err());
    let (first, second) = tokio::join!(locks.try_lock("a"), locks.try_lock("b"));
    assert!(first.unwrap().is_some() && second.unwrap().is_some());
}
