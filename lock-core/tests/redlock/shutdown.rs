//! The end of a lock.

use std::error::Error;
use std::time::{Duration, SystemTime};

use lock_core::tick::{TickJob, TickOutcome};
use lock_core::{
    AcquireError, DistributedLockExt, LockGuard, LockRequest, Loss, ReleaseError, ResumeError,
    WithLockError,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{sleep, timeout};

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
    let told = "memory-2, memory-3: connection refused";
    assert!(cause.contains(told), "{cause}");
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

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_bodies_and_keeps_their_locks_meanwhile() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let working = locks.clone();
    let work = tokio::spawn(async move {
        let request = LockRequest::new(KEY).ttl(1000 * MS).auto_extend(true);
        working
            .with_lock(request, async |_| sleep(3000 * MS).await)
            .await
    });
    sleep(200 * MS).await;
    let (result, took) = timed(locks.shutdown()).await;
    result.unwrap();
    assert!(work.is_finished(), "the lock was released under its feet");
    assert!(took >= 2800 * MS, "{took:?}");
    work.await.unwrap().unwrap();
    assert!(is_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_dropped_and_then_its_lock_is_released() {
    struct Body<'a>(&'a [MemoryNode]);
    impl Drop for Body<'_> {
        fn drop(&mut self) {
            assert!(self.0.iter().all(|node| node.keys() == [KEY.as_bytes()]));
        }
    }
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let (working, seen) = (locks.clone(), nodes.clone());
    let work = tokio::spawn(async move {
        working
            .with_lock(KEY, async |_| {
                let _body = Body(&seen);
                sleep(60_000 * MS).await;
            })
            .await
    });
    sleep(200 * MS).await;
    let (result, took) = timed(locks.shutdown_within(1000 * MS)).await;
    result.unwrap();
    assert!(took < 1000 * MS, "{took:?}");
    let stopped = work.await.unwrap();
    assert!(
        matches!(stopped, Err(WithLockError::Lost(Loss::ShutDown))),
        "{stopped:?}"
    );
    assert!(is_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_keeps_its_lock_and_is_reported() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let mut work = Box::pin(locks.with_lock(KEY, async |_| sleep(60_000 * MS).await));
    assert!(timeout(10 * MS, &mut work).await.is_err());
    // Nobody polls it from here on, as if it blocked its thread.
    let error = locks.shutdown_within(1000 * MS).await.unwrap_err();
    assert_eq!(error.unreleased, 1);
    assert!(nodes.iter().all(|node| node.keys() == [KEY.as_bytes()]));
    assert!(matches!(
        work.await,
        Err(WithLockError::Lost(Loss::ShutDown))
    ));
    settle().await;
    assert!(is_empty(&nodes));
}

/// Returns whether all nodes have the key still when its holder has heard of a shutdown 50 ms ago.
async fn finds_its_keys(lost: impl Future<Output = Loss>, nodes: Vec<MemoryNode>) -> bool {
    assert_eq!(lost.await, Loss::ShutDown);
    sleep(50 * MS).await;
    nodes.iter().all(|node| node.keys() == [KEY.as_bytes()])
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_guard_hears_of_a_shutdown_before_its_lock_is_released() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let holder = tokio::spawn(finds_its_keys(guard.lost(), nodes.clone()));
    sleep(MS).await;
    locks.shutdown_within(1000 * MS).await.unwrap();
    assert!(holder.await.unwrap(), "it had a moment to react");
    assert!(!guard.is_valid());
    assert!(is_empty(&nodes));
    assert_eq!(guard.lost().await, Loss::ShutDown, "it stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_second_shutdown_takes_nobodys_moment_to_react() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    let holder = tokio::spawn(finds_its_keys(guard.lost(), nodes.clone()));
    sleep(MS).await;
    let second = async {
        sleep(10 * MS).await;
        locks.shutdown_within(1000 * MS).await
    };
    let (first, second) = tokio::join!(locks.shutdown_within(1000 * MS), second);
    first.and(second).unwrap();
    assert!(holder.await.unwrap(), "it had a moment to react");
    assert!(is_empty(&nodes));
    // Nor does one that comes when all is over wait for anybody.
    let (_, took) = timed(locks.shutdown_within(1000 * MS)).await;
    assert!(took < 100 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_body_of_a_tick() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let working = locks.clone();
    let work = tokio::spawn(async move {
        let job = TickJob::every("job", Duration::from_secs(1))
            .build()
            .unwrap();
        let period = job.period().unwrap();
        let tick = period.tick_at_or_before(SystemTime::now()).unwrap();
        let run = job.run(&working, tick, async |_| sleep(2000 * MS).await);
        run.await.unwrap()
    });
    sleep(MS).await;
    locks.shutdown().await.unwrap();
    assert!(work.is_finished());
    assert!(matches!(work.await.unwrap(), TickOutcome::Ran(())));
    assert!(!is_empty(&nodes), "the claim stays");
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_guards_that_were_dropped_and_ends_nothing() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let kept = locks.lock("kept").await.unwrap();
    for name in ["a", "b", "c"] {
        let guard = locks.lock(name).await.unwrap();
        drop(guard);
    }
    for node in &nodes {
        node.set_fault(Fault::Delay(20 * MS));
    }
    locks.flush(1000 * MS).await.unwrap();
    assert!(nodes.iter().all(|node| node.keys() == [b"kept"]));
    assert!(kept.is_valid());
    assert!(locks.lock("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_flush_tells_what_was_not_answered_and_waits_for_what_is_owed() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[0].set_fault(Fault::Hang);
    drop(guard);
    for within in [20 * MS, 300 * MS] {
        let error = locks.flush(within).await.unwrap_err();
        assert_eq!((error.unreleased, error.within), (1, within));
    }
    nodes[0].heal();
    locks.flush(5000 * MS).await.unwrap();
    assert!(is_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_released_or_handed_over_hears_nothing_of_a_shutdown() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let released = locks.lock("released").await.unwrap();
    let handed_over = locks.lock("handed over").await.unwrap();
    let lost = [released.lost(), handed_over.lost()].map(tokio::spawn);
    sleep(MS).await;
    released.release().await.unwrap();
    let lease = handed_over.into_lease();
    let (result, took) = timed(locks.shutdown()).await;
    result.unwrap();
    assert!(took < 50 * MS, "nobody needs a moment to react: {took:?}");
    sleep(60_000 * MS).await;
    assert!(lost.iter().all(|lost| !lost.is_finished()));
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_no_lock_that_is_lost_and_not_released() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(KEY).await.unwrap();
    assert!(nodes[..3].iter().all(|node| node.remove(KEY)));
    assert!(guard.extend(30_000 * MS).await.is_err());
    let (result, took) = timed(locks.flush(1000 * MS)).await;
    result.unwrap();
    assert!(took < 50 * MS, "{took:?}");
    drop(guard);
}
