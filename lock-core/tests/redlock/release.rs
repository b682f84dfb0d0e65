//! Rule 9: all nodes, idempotent, never a successor's key.

use lock_core::{DistributedLockExt, LockRequest, ReleaseError};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_release_after_the_ttl_says_so_at_once_and_leaves_the_successor_alone() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    for successor in [false, true] {
        let guard = locks
            .lock(LockRequest::new(KEY).ttl(300 * MS))
            .await
            .unwrap();
        tokio::time::sleep(500 * MS).await;
        assert!(!guard.is_valid());
        let next = match successor {
            true => Some(
                locks
                    .lock(LockRequest::new(KEY).ttl(10_000 * MS))
                    .await
                    .unwrap(),
            ),
            false => None,
        };
        settle().await;
        let ttls = nodes.iter().map(|node| node.pttl(KEY)).collect::<Vec<_>>();
        for _ in 0..2 {
            let (result, took) = timed(guard.release()).await;
            assert!(matches!(result, Err(ReleaseError::NotHeld)), "{result:?}");
            assert!(took.is_zero());
        }
        drop(guard);
        settle().await;
        if let Some(next) = next {
            for (node, ttl) in nodes.iter().zip(ttls) {
                assert_eq!(node.get(KEY).as_deref(), Some(next.token().as_bytes()));
                assert!(ttl - node.pttl(KEY) <= 2);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn too_few_answers_are_an_outage_and_the_release_goes_on() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    settle().await;
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Refuse);
    let (result, took) = timed(guard.release()).await;
    let Err(ref error @ ReleaseError::Unavailable { .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(took, 1_000 * MS, "ten node timeouts");
    assert_eq!(
        error.to_string(),
        "too few nodes answered, 2 are needed, and the release goes on in the background: memory-1: no \
         answer in 1000 ms; memory-2: connection refused; memory-3: granted"
    );
    assert!(!guard.is_valid());
    nodes[0].heal();
    nodes[1].heal();
    tokio::time::sleep(1_100 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_answered_long_after_a_node_timeout_is_no_error() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::Delay(900 * MS)));
    let (result, took) = timed(guard.release()).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(took, 900 * MS);
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    // And it was sent once.
    tokio::time::sleep(5_000 * MS).await;
    assert!(
        nodes.iter().all(|node| node.calls().release == 2),
        "with the warm-up's"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_called_again_does_not_mistake_its_own_work_for_a_loss() {
    for was_valid in [true, false] {
        let nodes = nodes(3);
        let locks = warm_locks(&nodes).await;
        let guard = locks
            .lock(LockRequest::new(KEY).ttl(5_000 * MS))
            .await
            .unwrap();
        settle().await;
        if !was_valid {
            tokio::time::sleep(6_000 * MS).await;
        }
        nodes[0].set_fault(Fault::Hang);
        nodes[1].set_fault(Fault::Refuse);
        let result = guard.release().await;
        assert!(
            matches!(result, Err(ReleaseError::Unavailable { .. })),
            "{result:?}"
        );
        nodes[0].heal();
        nodes[1].heal();
        // The releases that had no answer are sent again in the background.
        tokio::time::sleep(1_100 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
        for _ in 0..2 {
            match guard.release().await {
                Ok(()) => assert!(was_valid),
                Err(ReleaseError::NotHeld) => assert!(!was_valid),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_guard_is_not_valid_and_cannot_be_extended() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    guard.release().await.unwrap();
    assert!(!guard.is_valid());
    assert!(guard.remaining().is_zero());
    assert!(guard.extend(60_000 * MS).await.is_err());
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn foreign_data_under_the_locks_name_is_never_touched() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    for node in &nodes {
        node.set_other_type(KEY);
    }
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    let request = LockRequest::new(KEY).max_wait(300 * MS);
    assert!(locks.lock(request).await.is_err());
    settle().await;
    for node in &nodes {
        assert_eq!((node.keys().len(), node.pttl(KEY)), (1, -1));
        node.remove(KEY);
    }

    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    for node in &nodes {
        node.set_other_type(KEY);
    }
    assert!(guard.extend(60_000 * MS).await.is_err());
    assert!(matches!(guard.release().await, Err(ReleaseError::NotHeld)));
    settle().await;
    for node in &nodes {
        assert_eq!((node.keys().len(), node.pttl(KEY)), (1, -1));
    }
}
