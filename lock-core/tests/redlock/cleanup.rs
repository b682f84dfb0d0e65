//! Rule 3: whatever an attempt may have set is released, however it ended.

use lock_core::{AcquireError, DistributedLockExt, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_grant_whose_reply_was_lost_is_released() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::LoseReply);
    nodes[1].set_fault(Fault::LoseReply);
    let result = locks.try_lock(KEY).await;
    assert!(
        matches!(result, Err(AcquireError::Unavailable(_))),
        "{result:?}"
    );
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn commands_that_run_long_after_the_attempt_run_before_their_release() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Hang);
    for name in ["a", "b", "c"] {
        assert!(
            locks
                .try_lock(LockRequest::new(name).ttl(60_000 * MS))
                .await
                .is_err()
        );
    }
    tokio::time::sleep(5_000 * MS).await;
    nodes[0].heal();
    nodes[1].heal();
    settle().await;
    for node in &nodes {
        assert!(node.keys().is_empty(), "{node:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_counts_while_the_lock_is_held() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[2].set_fault(Fault::Delay(300 * MS));
    let guard = locks.lock(KEY).await.unwrap();
    assert_eq!(guard.votes().granted, 2);
    tokio::time::sleep(310 * MS).await;
    // The node counts as late, its call was driven on all the same if the client waits for it.
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    guard.release().await.unwrap();
    tokio::time::sleep(310 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_not_answered_is_sent_again_until_it_is() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    settle().await;
    // The node refuses connections while the release comes, and keeps its keys.
    nodes[1].set_fault(Fault::Refuse);
    guard.release().await.unwrap();
    tokio::time::sleep(3_000 * MS).await;
    assert_eq!(holding(&nodes, KEY), [1]);
    nodes[1].heal();
    tokio::time::sleep(1_100 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn releases_stop_when_the_ttl_has_passed() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(5_000 * MS))
        .await
        .unwrap();
    nodes[1].set_fault(Fault::Refuse);
    drop(guard);
    tokio::time::sleep(6_500 * MS).await;
    let calls = nodes[1].calls();
    assert!(calls.release > 3, "{calls:?}");
    tokio::time::sleep(60_000 * MS).await;
    assert_eq!(nodes[1].calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_surely_got_nothing_gets_no_release() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Refuse);
    let before = nodes[0].calls();
    let guard = locks.lock(KEY).await.unwrap();
    guard.release().await.unwrap();
    tokio::time::sleep(10_000 * MS).await;
    let calls = nodes[0].calls();
    assert_eq!(
        (
            calls.acquire - before.acquire,
            calls.release - before.release
        ),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_is_released_once() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_foreign(KEY, "rival");
    nodes[1].set_foreign(KEY, "rival");
    nodes[2].set_fault(Fault::Delay(50 * MS));
    let before = nodes[2].calls().release;
    let request = LockRequest::new(KEY).max_wait(std::time::Duration::ZERO);
    assert!(locks.lock(request).await.is_err());
    tokio::time::sleep(200 * MS).await;
    // The release that follows the acquire over the same connection is enough.
    assert_eq!(nodes[2].calls().release - before, 1);
    assert_eq!(holding(&nodes, KEY), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_token_of_its_own() {
    let nodes = nodes(1);
    let locks = locks(&nodes);
    let mut tokens = std::collections::HashSet::new();
    for _ in 0..100 {
        let guard = locks.lock(KEY).await.unwrap();
        assert_eq!(nodes[0].get(KEY).as_deref(), Some(guard.token().as_bytes()));
        assert!(tokens.insert(guard.token().to_owned()));
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_attempt_was_granted_is_released_when_its_error_is_returned() {
    let nodes = nodes(5);
    let locks = warm_locks(&nodes).await;
    let rival = crate::support::locks(&nodes[..3]).lock(KEY).await.unwrap();
    for (node, delay) in nodes.iter().zip([20, 20, 20, 10, 15]) {
        node.set_fault(Fault::Delay(delay * MS));
    }
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    assert_eq!(holding(&nodes, KEY), [0, 1, 2], "the rival's alone");
    let held = locks.lock(LockRequest::new(KEY).max_wait(60 * MS)).await;
    assert!(matches!(held, Err(AcquireError::Contended(_))), "{held:?}");
    assert_eq!(holding(&nodes, KEY), [0, 1, 2], "the rival's alone");
    assert!(rival.is_valid());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_have_granted_nothing_hold_no_error_up() {
    let nodes = nodes(5);
    let locks = warm_locks(&nodes).await;
    let _rival = crate::support::locks(&nodes[..3]).lock(KEY).await.unwrap();
    nodes[3].set_fault(Fault::Hang);
    nodes[4].set_fault(Fault::LoseReply);
    let (result, took) = timed(locks.try_lock(KEY)).await;
    assert!(result.unwrap().is_none());
    assert!(took < 50 * MS, "{took:?}");
}
