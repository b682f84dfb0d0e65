//! Locks that are extended automatically.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    AcquireError, BuildError, DistributedLockExt, InvalidInput, LockGuard, LockRequest, Loss,
    Redlock,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, sleep};

use crate::support::*;

fn request(resource: &str) -> LockRequest {
    LockRequest::new(resource).ttl(3000 * MS).auto_extend(true)
}

/// How often the nodes were called in so much time.
async fn calls_in(nodes: &[MemoryNode], time: Duration) -> u64 {
    let calls = || nodes.iter().map(|node| node.calls().total()).sum::<u64>();
    let before = calls();
    sleep(time).await;
    calls() - before
}

async fn held(locks: &Redlock<MemoryNode>, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..count {
        guards.push(
            locks
                .lock(request(&format!("lock-{number}")))
                .await
                .unwrap(),
        );
        // They were not all acquired at once.
        sleep(MS).await;
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn a_lock_outlives_its_ttl_for_as_long_as_its_guard_lives() {
    let nodes = nodes(5);
    let (locks, rival) = (locks(&nodes), locks(&nodes));
    let guard = locks.lock(request(KEY)).await.unwrap();
    for _ in 0..600 {
        sleep(100 * MS).await;
        assert!(guard.is_valid());
        assert!(rival.try_lock(KEY).await.unwrap().is_none());
    }
    guard.release().await.unwrap();
    settle().await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
    assert_eq!(
        calls_in(&nodes, 60_000 * MS).await,
        0,
        "nobody extends it any more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_never_answered_does_not_keep_the_others_from_another_try() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    // It is given a second to connect, which is more than the lock has.
    nodes[2].set_fault(Fault::Hang);
    let request = LockRequest::new(KEY).ttl(900 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    sleep(200 * MS).await;
    nodes[1].set_fault(Fault::Refuse);
    // The first extension falls into this time.
    sleep(200 * MS).await;
    nodes[1].heal();
    sleep(3000 * MS).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_is_not_extended_any_more() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    for round in 0..50 {
        let guard = locks.lock(request(KEY)).await.unwrap();
        // Also in the middle of an extension: one is due after about 988 ms.
        nodes[0].set_fault(Fault::Delay(5 * MS));
        sleep((round * 40) * MS).await;
        drop(guard);
        nodes[0].heal();
    }
    sleep(10 * MS).await;
    assert_eq!(holding(&nodes, KEY), []);
    assert_eq!(calls_in(&nodes, 60_000 * MS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn many_locks_go_in_one_command() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guards = held(&locks, 1000).await;
    sleep(3000 * MS).await;
    let calls = calls_in(&nodes, 30_000 * MS).await;
    // One by one, each lock is extended about 30 times at 5 nodes.
    let one_by_one = 1000 * 30 * 5;
    assert!(calls * 50 < one_by_one, "{calls}");
    assert!(guards.iter().all(LockGuard::is_valid));
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_fails_does_no_harm_and_gets_the_keys_again() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guards = held(&locks, 20).await;
    let lost = tokio::spawn(guards[0].lost());
    for fault in [
        Fault::Hang,
        Fault::Refuse,
        Fault::LoseReply,
        Fault::error("OOM no memory"),
    ] {
        nodes[1].set_fault(fault);
        nodes[3].forget();
        sleep(10_000 * MS).await;
        nodes[1].heal();
        nodes[1].forget();
        sleep(10_000 * MS).await;
        assert!(guards.iter().all(LockGuard::is_valid));
    }
    assert!(!lost.is_finished());
    // Whoever lost the keys has them again.
    assert!(nodes.iter().all(|node| node.keys().len() == 20));
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_ends_in_time_is_survived() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(request(KEY)).await.unwrap();
    for _ in 0..20 {
        nodes[..3]
            .iter()
            .for_each(|node| node.set_fault(Fault::Hang));
        sleep(1800 * MS).await;
        nodes[..3].iter().for_each(MemoryNode::heal);
        sleep(3000 * MS).await;
        assert!(guard.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_lasts_loses_the_lock_before_any_key_expires() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(request(KEY)).await.unwrap();
    sleep(7000 * MS).await;
    nodes[..3]
        .iter()
        .for_each(|node| node.set_fault(Fault::Refuse));
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(!guard.is_valid());
    assert!(
        holding(&nodes, KEY).len() >= 3,
        "{:?}",
        holding(&nodes, KEY)
    );
    // Nothing revives it, and nobody goes on extending it.
    nodes[..3].iter().for_each(MemoryNode::heal);
    sleep(5000 * MS).await;
    assert!(!guard.is_valid());
    assert_eq!(holding(&nodes, KEY), []);
    assert_eq!(calls_in(&nodes, 60_000 * MS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_gone_is_noticed_by_the_next_extension() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guards = held(&locks, 3).await;
    nodes[..3]
        .iter()
        .for_each(|node| node.set_foreign("lock-1", "stolen"));
    let start = Instant::now();
    assert_eq!(guards[1].lost().await, Loss::Revoked);
    assert!(start.elapsed() < 1100 * MS, "{:?}", start.elapsed());
    sleep(30_000 * MS).await;
    let valid = guards.iter().map(LockGuard::is_valid).collect::<Vec<_>>();
    assert_eq!(valid, [true, false, true]);
    assert_eq!(nodes[0].get("lock-1").unwrap(), b"stolen");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_guard_holds_for_max_hold_and_no_longer() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let request = request(KEY).max_hold(60_000 * MS);
    let guard = locks.lock(request).await.unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await, Loss::Expired);
    let held = start.elapsed();
    assert!(held > 59_000 * MS && held < 64_000 * MS, "{held:?}");
    assert_eq!(calls_in(&nodes, 60_000 * MS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_lock_itself_can_ask_for_it_and_a_request_against_it() {
    let nodes = nodes(3);
    let locks = builder(&nodes)
        .ttl(1000 * MS)
        .auto_extend(true)
        .build()
        .unwrap();
    let extended = locks.lock("a").await.unwrap();
    let plain = locks
        .lock(LockRequest::new("b").auto_extend(false))
        .await
        .unwrap();
    sleep(5000 * MS).await;
    assert!(extended.is_valid() && !plain.is_valid());
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_leaves_no_time_for_another_try_is_refused() {
    let nodes = nodes(3);
    for interval in [Duration::ZERO, 2500 * MS, 3000 * MS, Duration::MAX] {
        let refused = locks(&nodes)
            .lock(request(KEY).extend_interval(interval))
            .await;
        assert!(matches!(
            refused,
            Err(AcquireError::Invalid(InvalidInput::ExtendInterval { .. }))
        ));
        let refused = builder(&nodes).ttl(3000 * MS).auto_extend(true);
        assert!(matches!(
            refused.extend_interval(interval).build(),
            Err(BuildError::Invalid(InvalidInput::ExtendInterval { .. }))
        ));
    }
    assert_eq!(nodes[0].calls().total(), 0, "nothing was sent");
}

#[test]
fn the_next_use_goes_on_where_a_runtime_ended() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let threads = lock_core::runtime::ThreadRuntime::shared();
    let nodes = MemoryNode::several_with_runtime(3, &(threads as Arc<dyn lock_core::Runtime>));
    let locks = Redlock::new(nodes.clone()).unwrap();
    let first = runtime();
    let one = first.block_on(locks.lock(request("one"))).unwrap();
    drop(first);
    let second = runtime();
    second.block_on(async {
        let two = locks.lock(request("two")).await.unwrap();
        let before = nodes[0].calls().extend;
        sleep(10_000 * MS).await;
        assert!(nodes[0].calls().extend > before + 5);
        two.release().await.unwrap();
    });
    drop(one);
}

#[test]
fn the_end_of_one_runtime_does_not_end_the_extensions_of_another() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let threads = lock_core::runtime::ThreadRuntime::shared();
    let nodes = MemoryNode::several_with_runtime(3, &(threads as Arc<dyn lock_core::Runtime>));
    let locks = Redlock::new(nodes.clone()).unwrap();
    let (first, second) = (runtime(), runtime());
    let one = first.block_on(locks.lock(request("one"))).unwrap();
    let two = second.block_on(locks.lock(request("two"))).unwrap();
    drop(first);
    second.block_on(async {
        let before = nodes[0].calls().extend;
        sleep(10_000 * MS).await;
        assert!(
            nodes[0].calls().extend > before + 5,
            "nobody has used the lock again"
        );
        assert!(two.is_valid());
    });
    drop((one, two));
}
