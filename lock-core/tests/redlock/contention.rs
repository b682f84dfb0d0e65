//! Rule 7 and waiting: rivals, split votes, deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{
    AcquireError, DistributedLock, DistributedLockExt, Jitter, LockRequest, RetryPolicy,
};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

/// Puts a rival's key on some nodes.
fn rival(nodes: &[MemoryNode], at: &[usize], token: &str) {
    for node in at {
        nodes[*node].set_foreign(KEY, token);
        assert!(nodes[*node].expire(KEY, 60_000 * MS));
    }
}

#[tokio::test(start_paused = true)]
async fn held_by_somebody_else_is_a_value_and_no_error() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let before = nodes[0].calls().total();
    let (result, took) = timed(locks.try_lock(KEY)).await;
    assert!(result.unwrap().is_none());
    // One round was enough.
    assert!(took.is_zero());
    assert_eq!(nodes[0].calls().total() - before, 1);
    guard.release().await.unwrap();
    assert!(locks.try_lock(KEY).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_not_reentrant() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let again = LockRequest::new(KEY).max_wait(2_000 * MS);
    let (result, took) = timed(locks.acquire(&again)).await;
    let Err(AcquireError::Contended(contended)) = result else {
        panic!("{result:?}");
    };
    assert!(took <= 2_000 * MS && took >= 1_800 * MS, "{took:?}");
    assert_eq!(contended.waited, took);
    assert!(contended.attempts > 5);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_when_it_is_released_or_expires() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let waiter = tokio::spawn({
        let locks = locks.clone();
        async move { timed(locks.lock(KEY)).await }
    });
    tokio::time::sleep(3_000 * MS).await;
    guard.release().await.unwrap();
    let (guard, took) = waiter.await.unwrap();
    assert!(
        guard.is_ok() && took >= 3_000 * MS && took <= 3_200 * MS,
        "{took:?}"
    );
    drop(guard);
    settle().await;

    rival(&nodes, &[0, 1, 2], "crashed");
    let wait = LockRequest::new(KEY).max_wait(None);
    let (guard, took) = timed(locks.lock(wait)).await;
    assert!(
        guard.is_ok() && took >= 59_000 * MS && took <= 60_200 * MS,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn zero_tries_once_and_a_deadline_is_kept() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    rival(&nodes, &[0, 1, 2], "rival");
    let before = nodes[0].calls().total();
    let (result, took) = timed(locks.lock(LockRequest::new(KEY).max_wait(Duration::ZERO))).await;
    assert!(matches!(result, Err(AcquireError::Contended(_))));
    assert!(took.is_zero());
    assert_eq!(nodes[0].calls().total() - before, 1);

    for max_wait in [1, 7, 100, 1_000] {
        let request = LockRequest::new(KEY).max_wait(max_wait * MS);
        let (result, took) = timed(locks.lock(request)).await;
        assert!(matches!(result, Err(AcquireError::Contended(_))));
        // Tokio's timer counts in whole milliseconds.
        assert!(took <= (max_wait + 1) * MS, "{took:?} of {max_wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn any_retry_delay_is_legal() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    rival(&nodes, &[0, 1, 2], "rival");
    for delay in [Duration::ZERO, MS, Duration::MAX] {
        for jitter in [Jitter::None, Jitter::Full] {
            let retry = RetryPolicy::new()
                .delay(delay)
                .max_delay(delay)
                .jitter(jitter);
            let request = LockRequest::new(KEY).retry(retry).max_wait(5 * MS);
            // Without a pause somebody is always busy, so that the clock must be pushed.
            let tick = async {
                loop {
                    tokio::time::advance(MS).await;
                }
            };
            let result = tokio::select! {
                result = locks.lock(request) => result,
                () = tick => unreachable!(),
            };
            assert!(
                matches!(result, Err(AcquireError::Contended(_))),
                "{result:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn split_votes_are_sorted_out_within_a_try() {
    let nodes = nodes(2);
    let locks = locks(&nodes);
    // A rival that holds one of two nodes gives up soon, as rivals do.
    rival(&nodes, &[1], "rival");
    let gives_up = {
        let node = nodes[1].clone();
        async move {
            tokio::time::sleep(20 * MS).await;
            node.remove(KEY);
        }
    };
    let (result, ()) = tokio::join!(locks.try_lock(KEY), gives_up);
    assert!(result.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_tie_that_does_not_end_is_contention_within_two_node_timeouts() {
    for count in [2, 4] {
        let nodes = nodes(count);
        let locks = locks(&nodes);
        let half = (0..count / 2).collect::<Vec<_>>();
        rival(&nodes, &half, "rival");
        let (result, took) = timed(locks.try_lock(KEY)).await;
        assert!(result.unwrap().is_none());
        assert!(took <= 201 * MS, "{took:?}");
        settle().await;
        assert_eq!(holding(&nodes, KEY), half);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_a_bare_majority_is_recognised_by_his_token() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    rival(&nodes, &[0, 1, 2], "holder");
    let (result, took) = timed(locks.try_lock(KEY)).await;
    assert!(result.unwrap().is_none());
    assert!(took < 200 * MS, "{took:?}");

    let request = LockRequest::new(KEY).max_wait(None).fail_if_held(true);
    let Err(AcquireError::Contended(contended)) = locks.acquire(&request).await else {
        panic!("not contended");
    };
    assert_eq!(contended.holder.as_deref(), Some(&b"holder"[..]));
    assert!(contended.holder_ttl.unwrap() > 59_000 * MS);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_even_by_a_wait_that_fails_if_held() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Refuse);
    nodes[1].set_fault(Fault::Hang);
    let back = {
        let nodes = nodes.clone();
        async move {
            tokio::time::sleep(1_000 * MS).await;
            nodes[0].heal();
        }
    };
    let request = LockRequest::new(KEY).fail_if_held(true);
    let (guard, ()) = tokio::join!(locks.acquire(&request), back);
    assert_eq!(guard.unwrap().votes().granted, 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_deadline_even_if_a_timer_fires_late() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    rival(&nodes, &[0, 1, 2], "rival");
    let retry = RetryPolicy::new().delay(400 * MS).jitter(Jitter::None);
    let request = LockRequest::new(KEY).max_wait(1_000 * MS).retry(retry);
    let waiter = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire(&request).await }
    });
    tokio::time::sleep(10 * MS).await;
    let before = nodes[0].calls();
    // As if the process had been stopped for a while.
    tokio::time::advance(5_000 * MS).await;
    let result = waiter.await.unwrap();
    assert!(
        matches!(result, Err(AcquireError::Contended(_))),
        "{result:?}"
    );
    assert_eq!(nodes[0].calls(), before);
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_behind_the_anchor_has_a_whole_node_timeout() {
    let nodes = nodes(2);
    let locks = warm_locks(&nodes).await;
    // The votes are split while the rival holds one node, then each node takes its time.
    rival(&nodes, &[1], "rival");
    let turn = {
        let nodes = nodes.clone();
        async move {
            settle().await;
            nodes[1].remove(KEY);
            for node in &nodes {
                node.set_fault(Fault::Delay(80 * MS));
            }
        }
    };
    let (result, ()) = tokio::join!(locks.try_lock(KEY), turn);
    assert!(result.unwrap().is_some());
}

/// Rivals that start in lock-step, each with locks of its own: nobody ever overlaps, somebody wins
/// each round, and nobody is kept out for ever.
#[tokio::test(start_paused = true)]
async fn rivals_in_lock_step_exclude_each_other_and_all_get_their_turn() {
    for count in [1, 2, 3, 5] {
        let nodes = nodes(count);
        for (i, node) in nodes.iter().enumerate() {
            node.set_fault(Fault::Delay((1 + i as u32) * MS));
        }
        let inside = Arc::new(AtomicU32::new(0));
        let mut rivals = tokio::task::JoinSet::new();
        for rival in 0..8 {
            let mut order = nodes.clone();
            // The nodes' delays differ, and so do the rivals' orders of asking.
            order.rotate_left(rival % count);
            let (inside, locks) = (Arc::clone(&inside), builder(&order).build().unwrap());
            rivals.spawn(async move {
                for _ in 0..5 {
                    let request = LockRequest::new(KEY).max_wait(None);
                    let guard = locks.acquire(&request).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::time::sleep(3 * MS).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            });
        }
        while let Some(rival) = rivals.join_next().await {
            rival.unwrap();
        }
        tokio::time::sleep(100 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    }
}

/// Found by the simulator: seed 128855.
#[tokio::test(start_paused = true)]
async fn answers_that_are_in_count_even_if_their_caller_was_stopped_past_their_time() {
    // Whichever node is the anchor: it must be free for the others to be asked after it.
    for free in 0..5 {
        let nodes = nodes(5);
        let locks = warm_locks(&nodes).await;
        rival(&nodes, &[(free + 1) % 5, (free + 2) % 5], "a");
        rival(&nodes, &[(free + 3) % 5, (free + 4) % 5], "b");
        nodes
            .iter()
            .for_each(|node| node.set_fault(Fault::Delay(5 * MS)));
        let asked = || nodes.iter().all(|node| rounds(node) > 2);
        let mut call = Box::pin(locks.try_lock(KEY));
        let mut result = None;
        for _ in 0..100 {
            if let std::task::Poll::Ready(ready) = futures::poll!(&mut call) {
                result = Some(ready);
                break;
            }
            // The process stops when the second round is under way.
            tokio::time::advance(if asked() { 1_000 * MS } else { MS }).await;
        }
        assert!(result.unwrap().unwrap().is_none());
    }
}

fn rounds(node: &MemoryNode) -> u64 {
    node.calls().acquire + node.calls().acquire_or_report
}
