//! Locks as data, and what operators can do.

use lock_core::custom;
use lock_core::{
    DistributedLockExt, ExtendError, ForceReleaseError, Lease, LockRequest, ReleaseError,
    ResumeError,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

fn request() -> LockRequest {
    LockRequest::new(KEY).ttl(10_000 * MS)
}

async fn lease(nodes: &[MemoryNode]) -> Lease {
    let guard = locks(nodes).lock(request()).await.unwrap();
    settle().await;
    guard.into_lease().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_keeps_the_lock_and_another_process_goes_on_with_it() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    assert_eq!(lease.resource(), KEY.as_bytes());
    assert_eq!(lease.ttl(), 10_000 * MS);
    assert!(lease.remaining() > 9_800 * MS && lease.remaining() < 9_900 * MS);
    sleep(5_000 * MS).await;
    assert_eq!(
        holding(&nodes, KEY).len(),
        5,
        "the guard that is gone released nothing"
    );

    let other = locks(&nodes);
    let read = lease.to_string().parse::<Lease>().unwrap();
    let guard = other.resume(&read).await.unwrap();
    assert_eq!(guard.token(), lease.token());
    assert!(guard.remaining() > 9_800 * MS, "it is extended");
    assert!(other.try_lock(KEY).await.unwrap().is_none());
    guard.extend(20_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(holding(&nodes, KEY), []);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_handed_over_stands_for_nothing() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(request().auto_extend(true)).await.unwrap();
    let lost = guard.lost();
    guard.into_lease().unwrap();
    assert!(
        tokio::time::timeout(60_000 * MS, lost).await.is_err(),
        "that is no loss"
    );
    assert_eq!(holding(&nodes, KEY), [], "nobody extended it");
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_or_released_makes_no_lease() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(request()).await.unwrap();
    guard.release().await.unwrap();
    assert!(guard.into_lease().is_none());
    let guard = locks.lock(request()).await.unwrap();
    sleep(10_000 * MS).await;
    assert!(guard.into_lease().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_came_too_late_is_lost_and_touches_no_successor() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    sleep(10_001 * MS).await;
    let locks = locks(&nodes);
    assert!(matches!(locks.resume(&lease).await, Err(ResumeError::Lost)));
    let successor = locks.lock(request()).await.unwrap();
    assert!(matches!(locks.resume(&lease).await, Err(ResumeError::Lost)));
    settle().await;
    assert_eq!(holding(&nodes, KEY).len(), 5);
    successor.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_lock_whose_lease_is_lost_is_given_back() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    nodes[..3].iter().for_each(MemoryNode::forget);
    let locks = locks(&nodes);
    assert!(matches!(locks.resume(&lease).await, Err(ResumeError::Lost)));
    settle().await;
    assert_eq!(holding(&nodes, KEY), []);
}

#[tokio::test(start_paused = true)]
async fn an_outage_leaves_the_lease_as_it_was() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    let locks = locks(&nodes);
    nodes[..3]
        .iter()
        .for_each(|node| node.set_fault(Fault::Refuse));
    assert!(matches!(
        locks.resume(&lease).await,
        Err(ResumeError::Unavailable { .. })
    ));
    nodes[..3].iter().for_each(MemoryNode::heal);
    settle().await;
    assert_eq!(holding(&nodes, KEY).len(), 5);
    drop(locks.resume(&lease).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_acquire_had_no_answer_does_not_count_for_who_resumes() {
    let nodes = nodes(5);
    // Two have the key, but nobody has heard of it, so it may vanish again.
    nodes[..2]
        .iter()
        .for_each(|node| node.set_fault(Fault::LoseReply));
    let lease = lease(&nodes).await;
    nodes.iter().for_each(MemoryNode::heal);
    // One of those that are known to have it has forgotten it.
    nodes[4].forget();
    let locks = locks(&nodes);
    assert!(matches!(
        locks.resume(&lease).await,
        Err(ResumeError::Unavailable { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_promise_to_hold_goes_along() {
    let nodes = nodes(5);
    let guard = locks(&nodes)
        .lock(request().hold_at_least(8_000 * MS))
        .await
        .unwrap();
    let lease = guard.into_lease().unwrap();
    let guard = locks(&nodes).resume(&lease).await.unwrap();
    guard.release().await.unwrap();
    sleep(7_000 * MS).await;
    assert_eq!(holding(&nodes, KEY).len(), 5);
    sleep(1_100 * MS).await;
    assert_eq!(holding(&nodes, KEY), []);
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_something_else_is_refused_before_anything_is_sent() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let foreign = custom::lease(KEY, "my own token", 1_000 * MS, 500 * MS);
    assert!(matches!(
        locks.resume(&foreign).await,
        Err(ResumeError::Token)
    ));
    let token = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    for bad in [
        custom::lease("", token, 1_000 * MS, MS),
        custom::lease(KEY, token, MS / 2, MS),
    ] {
        assert!(matches!(
            locks.resume(&bad).await,
            Err(ResumeError::Invalid(_))
        ));
    }
    assert_eq!(nodes[0].calls().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_inspects_sees_the_holder_and_changes_nothing() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let free = locks.inspect(KEY).await.unwrap();
    assert_eq!(free.is_locked(), Some(false));
    assert!(free.holder().is_none());
    let guard = locks.lock(request()).await.unwrap();
    settle().await;
    nodes[1].set_fault(Fault::Refuse);
    nodes[2].set_fault(Fault::Hang);
    let seen = locks.inspect(KEY).await.unwrap();
    assert_eq!(seen.is_locked(), Some(true));
    let holder = seen.holder().unwrap();
    assert_eq!(holder.token.unwrap(), guard.token().as_bytes());
    assert!(holder.ttl.unwrap() > 9_000 * MS);
    assert_eq!(&*seen.nodes()[1].label, "memory-2");
    let errors = [1, 2].map(|node| seen.nodes()[node].found.as_ref().unwrap_err().to_string());
    assert_eq!(errors, ["connection refused", "no answer in 100 ms"]);
    nodes.iter().for_each(MemoryNode::heal);
    nodes[4].set_foreign(KEY, "foreign");
    let seen = locks.inspect(KEY).await.unwrap();
    assert_eq!(
        seen.nodes()[4]
            .found
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .ttl,
        None
    );
    assert!(locks.inspect("").await.is_err());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_frees_whoever_holds_it_but_never_deletes_data() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    assert!(!locks.force_release(KEY).await.unwrap());
    let guard = locks.lock(request()).await.unwrap();
    assert!(locks.force_release(KEY).await.unwrap());
    assert_eq!(holding(&nodes, KEY), []);
    assert!(matches!(
        guard.extend(10_000 * MS).await,
        Err(ExtendError::Lost)
    ));
    assert!(matches!(guard.release().await, Err(ReleaseError::NotHeld)));

    nodes[..3].iter().for_each(|node| node.set_other_type(KEY));
    let refused = locks.force_release(KEY).await.unwrap_err();
    assert!(matches!(
        refused,
        ForceReleaseError::Unavailable { quorum: 3, .. }
    ));
    assert!(nodes[..3].iter().all(|node| node.keys().len() == 1));
    assert!(
        refused.to_string().contains("memory-1: refused"),
        "{refused}"
    );
    assert!(matches!(
        locks.force_release("").await,
        Err(ForceReleaseError::Invalid(_))
    ));
}
