//! Rules 1, 2 and 6: decided at the first certain moment, on the core's own timeout.

use lock_core::{AcquireError, DistributedLockExt, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_hung_or_refusing_minority_costs_nothing() {
    for fault in [Fault::Hang, Fault::Refuse, Fault::error("LOADING busy")] {
        let nodes = nodes(5);
        let locks = warm_locks(&nodes).await;
        nodes[0].set_fault(fault.clone());
        nodes[3].set_fault(fault);
        for _ in 0..20 {
            let (guard, took) = timed(locks.lock(KEY)).await;
            assert!(took.is_zero());
            assert_eq!(holding(&nodes, KEY), [1, 2, 4]);
            let (released, took) = timed(guard.unwrap().release()).await;
            released.unwrap();
            assert!(took.is_zero());
            assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_decide_at_once_leave_none_unasked() {
    let nodes = nodes(5);
    let locks = warm_locks(&nodes).await;
    let guard = locks.lock(KEY).await.unwrap();
    assert_eq!(guard.votes().granted, 5);
    assert_eq!(holding(&nodes, KEY), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_majority_is_an_outage_after_one_node_timeout_and_leaves_nothing() {
    let nodes = nodes(5);
    let locks = warm_locks(&nodes).await;
    for node in [0, 2, 4] {
        nodes[node].set_fault(Fault::Hang);
    }
    let (result, took) = timed(locks.try_lock(KEY)).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(took, 100 * MS);
    let shown = outage.to_string();
    let told = "memory-1, memory-3, memory-5: no answer in 100 ms; memory-2, memory-4: granted";
    assert!(shown.ends_with(told), "{shown}");
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_answered_is_given_the_time_to_connect() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    nodes[0].set_fault(Fault::Delay(700 * MS));
    nodes[1].set_fault(Fault::Delay(700 * MS));
    let (guard, took) = timed(locks.try_lock(KEY)).await;
    assert!(guard.unwrap().is_some());
    assert_eq!(took, 700 * MS);
    settle().await;
    // They have answered now, so the node timeout holds.
    let (result, took) = timed(locks.try_lock("other")).await;
    assert!(matches!(result, Err(AcquireError::Unavailable(_))));
    assert_eq!(took, 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_first_send() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    for node in &nodes {
        node.set_fault(Fault::Delay(60 * MS));
    }
    let guard = locks.lock(LockRequest::new(KEY).ttl(10_000 * MS)).await;
    // 10 s less 1 % and 2 ms of drift, less the 60 ms that the round took.
    assert_eq!(guard.unwrap().remaining(), (10_000 - 102 - 60) * MS);
}

#[tokio::test(start_paused = true)]
async fn a_lock_won_too_late_is_released_and_reported() {
    let nodes = nodes(3);
    // Allowed to connect for longer than the validity lasts, and slower than that.
    let locks = locks(&nodes);
    for node in &nodes {
        node.set_fault(Fault::Delay(250 * MS));
    }
    let request = LockRequest::new(KEY).ttl(200 * MS);
    let result = locks.try_lock(request).await;
    assert!(result.is_err(), "{result:?}");
    for node in &nodes {
        node.heal();
    }
    tokio::time::sleep(400 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_two_and_even_numbers_of_nodes_work() {
    for count in [1, 2, 3, 4, 6, 7] {
        let nodes = nodes(count);
        let locks = locks(&nodes);
        let guard = locks.lock(KEY).await.unwrap();
        settle().await;
        assert_eq!(guard.votes().granted, count);
        assert!(locks.try_lock(KEY).await.unwrap().is_none());
        guard.release().await.unwrap();
        settle().await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    }
}
