//! The runtime is found at the first poll, kept in the guard, and may end at any time.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::executor::block_on;
use lock_core::runtime::{Runtime, ThreadRuntime, TokioRuntime};
use lock_core::{DistributedLock, DistributedLockExt, LockRequest, RedisNode, Redlock};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

fn tokio_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().unwrap()
}

fn on_threads(count: usize) -> Vec<MemoryNode> {
    let runtime: Arc<dyn Runtime> = ThreadRuntime::shared();
    MemoryNode::several_with_runtime(count, &runtime)
}

/// Waits in real time until no node has a key, as the ttl would not bring about by itself so soon.
fn wait_until_empty(nodes: &[MemoryNode]) {
    for _ in 0..2_000 {
        if nodes.iter().all(|node| node.keys().is_empty()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("keys are left: {nodes:?}");
}

#[test]
fn without_any_runtime_the_thread_runtime_serves() {
    let nodes = on_threads(3);
    let locks = locks(&nodes);
    block_on(async {
        let guard = locks.lock(KEY).await.unwrap();
        assert!(locks.try_lock(KEY).await.unwrap().is_none());
        guard.extend(60_000 * MS).await.unwrap();
        guard.release().await.unwrap();
        drop(locks.lock("dropped").await.unwrap());
        nodes[0].set_fault(Fault::Hang);
        nodes[1].set_fault(Fault::Hang);
        let request = LockRequest::new(KEY).max_wait(200 * MS);
        assert!(locks.lock(request).await.is_err());
        nodes[0].heal();
        nodes[1].heal();
    });
    wait_until_empty(&nodes);
}

#[test]
fn one_lock_serves_several_tokio_runtimes_one_after_the_other() {
    static NODES: LazyLock<Vec<MemoryNode>> = LazyLock::new(|| on_threads(3));
    static LOCKS: LazyLock<Redlock<MemoryNode>> = LazyLock::new(|| locks(&NODES));
    for _ in 0..3 {
        let runtime = tokio_runtime();
        runtime.block_on(async {
            let guard = LOCKS.lock(KEY).await.unwrap();
            NODES[1].set_fault(Fault::Refuse);
            guard.release().await.unwrap();
            // A release is owed to the node when this runtime ends.
            NODES[1].heal();
            drop(LOCKS.lock("dropped").await.unwrap());
        });
        drop(runtime);
        NODES.iter().for_each(MemoryNode::forget);
    }
}

#[test]
fn a_release_that_was_owed_when_the_runtime_ended_is_sent_on_the_next_one() {
    // The runtime ends during the pause before a release is sent again, or while the first or the second one
    // has no answer.
    for (fault, wait) in [
        (Fault::Refuse, 180 * MS),
        (Fault::Hang, 180 * MS),
        (Fault::Hang, 1_180 * MS),
    ] {
        let nodes = on_threads(3);
        let locks = locks(&nodes);
        let runtime = tokio_runtime();
        runtime.block_on(async {
            warm(&locks).await;
            let guard = locks.lock(KEY).await.unwrap();
            settle().await;
            nodes[1].set_fault(fault);
            guard.release().await.unwrap();
            tokio::time::sleep(wait).await;
        });
        drop(runtime);
        // What was sent to it is lost, the keys are not.
        nodes[1].set_fault(Fault::Refuse);
        nodes[1].heal();
        assert_eq!(holding(&nodes, KEY), [1]);
        let runtime = tokio_runtime();
        drop(runtime.block_on(locks.lock("other")).unwrap());
        wait_until_empty(&nodes);
    }
}

#[test]
fn a_guard_that_outlives_its_runtime_does_no_harm() {
    let nodes = on_threads(3);
    let locks = locks(&nodes);
    let runtime = tokio_runtime();
    let take = |name: &'static str| runtime.block_on(locks.lock(name)).unwrap();
    let (dropped, released, hung) = (take("dropped"), take("released"), take("hung"));
    drop(runtime);
    assert!(dropped.is_valid());
    drop(dropped);
    block_on(released.extend(60_000 * MS)).unwrap();
    block_on(released.release()).unwrap();
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Hang);
    // It needs a timer, and the runtime that it was taken on has none to give any more.
    assert!(block_on(hung.release()).is_err());
}

#[test]
fn a_runtime_that_was_set_is_the_one_that_is_used() {
    let runtime = tokio_runtime();
    let nodes = on_threads(3);
    let chosen = Arc::new(TokioRuntime::new(runtime.handle().clone()));
    let locks = builder(&nodes).runtime(chosen).build().unwrap();
    // Outside any runtime, on a plain thread: timers and background tasks are tokio's.
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Hang);
    assert!(block_on(locks.try_lock(KEY)).is_err());
    nodes[0].heal();
    nodes[1].heal();
    wait_until_empty(&nodes);
    drop(block_on(locks.lock(KEY)).unwrap());
    wait_until_empty(&nodes);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_different_types_work_in_one_lock_and_a_lock_is_an_object() {
    let runtime = lock_core::runtime::ambient();
    let a = MemoryNode::with_runtime("a", Arc::clone(&runtime));
    let b: Box<dyn RedisNode> = Box::new(MemoryNode::with_runtime("b", runtime));
    let nodes: [Arc<dyn RedisNode>; 2] = [Arc::new(a), Arc::new(b)];
    let locks: Arc<dyn DistributedLock> = Arc::new(Redlock::new(nodes).unwrap());
    let task = tokio::spawn(async move {
        let guard = locks.lock(KEY).await.unwrap();
        assert!(locks.try_lock(KEY).await.unwrap().is_none());
        guard.release().await.unwrap();
    });
    task.await.unwrap();
}

/// A runtime that nobody drives but the caller, as there is one for each worker of some servers.
fn current_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap()
}

#[test]
fn a_runtime_that_stands_still_stops_no_renewals_of_another() {
    let locks = locks(&on_threads(3));
    let (stalled, is_held) = std::sync::mpsc::channel();
    let stalling = locks.clone();
    let first = std::thread::spawn(move || {
        current_thread().block_on(async {
            let request = LockRequest::new("a").ttl(20_000 * MS).auto_extend(true);
            let guard = stalling.lock(request).await.unwrap();
            stalled.send(()).unwrap();
            std::thread::sleep(Duration::from_secs(5));
            assert!(guard.is_valid());
        });
    });
    is_held.recv().unwrap();
    current_thread().block_on(async {
        let request = LockRequest::new("b").ttl(2_000 * MS).auto_extend(true);
        let guard = locks.lock(request).await.unwrap();
        let lost = guard.lost();
        let while_stalled = tokio::time::timeout(Duration::from_millis(4_500), lost);
        assert!(while_stalled.await.is_err(), "it was lost");
    });
    first.join().unwrap();
}

/// The nodes that still have the key when the locks have been used on another runtime, long before its ttl.
fn holding_after_next_use(locks: &Redlock<MemoryNode>, nodes: &[MemoryNode]) -> Vec<usize> {
    current_thread().block_on(async {
        drop(locks.lock("other").await.unwrap());
        for _ in 0..500 {
            if holding(nodes, KEY).is_empty() {
                break;
            }
            tokio::time::sleep(10 * MS).await;
        }
    });
    holding(nodes, KEY)
}

#[test]
fn a_release_that_was_never_polled_when_the_runtime_ended_is_sent_on_the_next_one() {
    let nodes = on_threads(3);
    let locks = locks(&nodes);
    let runtime = current_thread();
    runtime.block_on(async {
        warm(&locks).await;
        let guard = locks.lock(KEY).await.unwrap();
        settle().await;
        drop(guard);
    });
    drop(runtime);
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(holding_after_next_use(&locks, &nodes), [0_usize; 0]);
}

#[test]
fn releases_that_waited_for_others_when_the_runtime_ended_are_sent_on_the_next_one() {
    const GUARDS: usize = 1_500;
    let nodes = on_threads(3);
    let locks = locks(&nodes);
    let runtime = current_thread();
    runtime.block_on(async {
        let mut guards = Vec::new();
        for number in 0..GUARDS {
            let guard = locks.lock(format!("k{number}")).await.unwrap();
            guards.push(guard);
        }
        settle().await;
        // Their releases are the last to be polled, if they were polled at all.
        drop(guards);
    });
    drop(runtime);
    drop(block_on(locks.lock("other")).unwrap());
    wait_until_empty(&nodes);
}

#[test]
fn an_acquire_that_was_cancelled_when_the_runtime_ended_is_released_on_the_next_one() {
    let nodes = on_threads(3);
    let locks = locks(&nodes);
    let runtime = current_thread();
    runtime.block_on(async {
        warm(&locks).await;
        nodes[1].set_fault(Fault::Hang);
        nodes[2].set_fault(Fault::Hang);
        let acquire = tokio::time::timeout(30 * MS, locks.lock(KEY));
        assert!(acquire.await.is_err(), "it hangs");
    });
    drop(runtime);
    nodes.iter().for_each(MemoryNode::heal);
    assert_eq!(holding(&nodes, KEY)[0], 0);
    assert_eq!(holding_after_next_use(&locks, &nodes), [0_usize; 0]);
}
