//! Nodes that missed a lock get its key while it is held.

use lock_core::{DistributedLockExt, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

const TTL: std::time::Duration = std::time::Duration::from_secs(10);

fn request() -> LockRequest {
    LockRequest::new(KEY).ttl(TTL)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_missed_a_lock_gets_its_key_while_it_is_held() {
    for fault in [
        Fault::Refuse,
        Fault::Hang,
        Fault::LoseReply,
        Fault::error("LOADING Redis is loading the dataset in memory"),
    ] {
        let nodes = nodes(3);
        let locks = warm_locks(&nodes).await;
        nodes[2].set_fault(fault.clone());
        let guard = locks.lock(request()).await.unwrap();
        tokio::time::sleep(1_000 * MS).await;
        // A server that comes back empty.
        nodes[2].forget();
        nodes[2].heal();
        tokio::time::sleep(2_500 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0, 1, 2], "{fault:?}");
        assert_eq!(nodes[2].get(KEY).unwrap(), guard.token().as_bytes());
        // No longer than the holder relies on it.
        let left = u64::try_from(nodes[2].pttl(KEY)).unwrap();
        assert!(
            u128::from(left) <= guard.remaining().as_millis() + 1,
            "{left}"
        );
        // A copy is one that another node may lose.
        nodes[0].forget();
        assert!(locks.try_lock(KEY).await.unwrap().is_none());
        if fault == Fault::Refuse {
            // Where an answer was lost, a release may be on its way still: such a copy votes later.
            guard.extend(TTL).await.unwrap();
        }
        guard.release().await.unwrap();
        settle().await;
        assert!(holding(&nodes, KEY).is_empty(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_asked_since_it_hung_gets_the_key_too() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[2].set_fault(Fault::Hang);
    // One of them is the probe, and the others leave the node out.
    let mut guards = Vec::new();
    for name in ["a", "b", "c", "d"] {
        guards.push(locks.lock(LockRequest::new(name).ttl(TTL)).await.unwrap());
        tokio::time::sleep(120 * MS).await;
    }
    nodes[2].heal();
    tokio::time::sleep(3_000 * MS).await;
    assert_eq!(nodes[2].keys(), [b"a", b"b", b"c", b"d"]);
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_filled_together() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Refuse);
    let guard = locks
        .lock(LockRequest::many(["a", "b"]).ttl(TTL))
        .await
        .unwrap();
    nodes[0].heal();
    tokio::time::sleep(2_000 * MS).await;
    assert_eq!(nodes[0].keys(), [b"a", b"b"]);
    guard.release().await.unwrap();
    settle().await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refused_a_lock_is_not_given_its_key() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[2].set_foreign(KEY, "a predecessor");
    let guard = locks.lock(request()).await.unwrap();
    settle().await;
    let calls = nodes[2].calls().total();
    assert!(nodes[2].remove(KEY));
    tokio::time::sleep(3_000 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0, 1]);
    assert_eq!(nodes[2].calls().total(), calls);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_every_node_granted_or_that_is_short_costs_no_fill() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let before: Vec<_> = nodes.iter().map(|node| node.calls().total()).collect();
    let guard = locks.lock(request()).await.unwrap();
    tokio::time::sleep(5_000 * MS).await;
    for (node, before) in nodes.iter().zip(before) {
        assert_eq!(node.calls().total(), before + 1);
    }
    guard.release().await.unwrap();

    nodes[2].set_fault(Fault::Refuse);
    let guard = locks.lock(request()).await.unwrap();
    tokio::time::sleep(50 * MS).await;
    guard.release().await.unwrap();
    let calls = nodes[2].calls().total();
    tokio::time::sleep(5_000 * MS).await;
    assert_eq!(nodes[2].calls().total(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_fill_under_way_when_the_lock_is_released_leaves_no_key() {
    for after in [90, 100, 101, 110, 120, 150] {
        let nodes = nodes(3);
        let locks = warm_locks(&nodes).await;
        nodes[2].set_fault(Fault::Refuse);
        let guard = locks.lock(request()).await.unwrap();
        nodes[2].set_fault(Fault::Delay(30 * MS));
        tokio::time::sleep(after * MS).await;
        guard.release().await.unwrap();
        tokio::time::sleep(1_000 * MS).await;
        assert!(holding(&nodes, KEY).is_empty(), "after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_stay_away_are_asked_less_and_less_often_and_not_beyond_the_validity() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[2].set_fault(Fault::Refuse);
    let before = nodes[2].calls().total();
    let _guard = locks.lock(request()).await.unwrap();
    tokio::time::sleep(20_000 * MS).await;
    // One acquire, and fills after 100, 300, 700 and 1500 ms, and each second from then on.
    let calls = nodes[2].calls().total() - before;
    assert!((10..=14).contains(&calls), "{calls}");
}
