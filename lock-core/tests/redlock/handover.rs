//! Locks as data, and what operators can do.

use lock_core::custom;
use lock_core::{
    DistributedLockExt, ExtendError, ForceReleaseError, Lease, LockGuard, LockRequest,
    ReleaseError, ResumeError,
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

#[track_caller]
fn assert_lost(resumed: Result<LockGuard, ResumeError>) {
    let is_lost = matches!(resumed, Err(ResumeError::Lost));
    assert!(is_lost, "{:?}", resumed.map(|_| ()));
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
    assert_ne!(guard.token(), lease.token());
    let token = Some(guard.token().as_bytes().to_vec());
    settle().await;
    assert!(nodes.iter().all(|node| node.get(KEY) == token));
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
async fn a_lease_is_resumed_once() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    let guard = locks(&nodes).resume(&lease).await.unwrap();
    for _ in 0..2 {
        assert_lost(locks(&nodes).resume(&lease).await);
        settle().await;
        assert_eq!(holding(&nodes, KEY).len(), 5, "it releases what it lost");
    }
    guard.extend(10_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(holding(&nodes, KEY), []);
    assert_lost(locks(&nodes).resume(&lease).await);
}

#[tokio::test(start_paused = true)]
async fn of_many_that_resume_one_lease_at_once_at_most_one_wins() {
    let mut wins = 0;
    for seed in 0..50 {
        let nodes = nodes(5);
        let lease = lease(&nodes).await;
        // Answers come in another order to each.
        let resume = |number: u64| {
            let (nodes, lease) = (nodes.clone(), lease.clone());
            async move {
                for (at, node) in nodes.iter().enumerate() {
                    let delay = (seed * 7 + number * 3 + at as u64 * (number + 2)) % 5;
                    node.set_fault(Fault::Delay(MS * u32::try_from(delay).unwrap()));
                }
                locks(&nodes).resume(&lease).await
            }
        };
        let results = futures::future::join_all((0..3).map(resume)).await;
        nodes.iter().for_each(MemoryNode::heal);
        let mut guards = results.into_iter().filter_map(|result| match result {
            Ok(guard) => Some(guard),
            lost => {
                assert_lost(lost);
                None
            }
        });
        let (guard, other) = (guards.next(), guards.next());
        assert!(other.is_none(), "seed {seed}");
        sleep(50 * MS).await;
        if let Some(guard) = guard {
            wins += 1;
            guard.extend(10_000 * MS).await.unwrap();
            assert!(locks(&nodes).try_lock(KEY).await.unwrap().is_none());
            guard.release().await.unwrap();
            settle().await;
        }
        assert_eq!(holding(&nodes, KEY), [], "seed {seed}");
    }
    assert!(wins > 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_gives_a_lease_to_try_again() {
    for fault in [Fault::Refuse, Fault::Hang, Fault::LoseReply] {
        let nodes = nodes(5);
        let mut lease = lease(&nodes).await;
        let locks = locks(&nodes);
        for _ in 0..3 {
            nodes[1..4]
                .iter()
                .for_each(|node| node.set_fault(fault.clone()));
            let Err(ResumeError::Unavailable { lease: again, .. }) = locks.resume(&lease).await
            else {
                panic!("{fault:?}");
            };
            nodes.iter().for_each(MemoryNode::heal);
            assert_eq!(again.token(), lease.token());
            lease = again.to_string().parse().unwrap();
        }
        assert_eq!(lease.tokens().count(), 4, "{fault:?}");
        settle().await;
        assert_eq!(holding(&nodes, KEY).len(), 5);
        let guard = locks.resume(&lease).await.unwrap();
        guard.release().await.unwrap();
        settle().await;
        assert_eq!(holding(&nodes, KEY), [], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_stays_as_it_was_if_no_node_can_have_exchanged_it() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    let Err(ResumeError::Unavailable { lease: again, .. }) = locks(&nodes).resume(&lease).await
    else {
        panic!("nobody answered");
    };
    assert_eq!(*again, lease);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_late_ends_with_the_new_token() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    nodes[4].set_fault(Fault::Delay(500 * MS));
    nodes[3].set_fault(Fault::Refuse);
    let locks = locks(&nodes);
    let guard = locks.resume(&lease).await.unwrap();
    nodes.iter().for_each(MemoryNode::heal);
    sleep(600 * MS).await;
    let token = Some(guard.token().as_bytes().to_vec());
    assert_eq!(nodes[4].get(KEY), token);
    assert_ne!(nodes[3].get(KEY), token, "it did not get the command");
    guard.extend(10_000 * MS).await.unwrap();
    settle().await;
    assert_eq!(nodes[3].get(KEY), token);
}

#[tokio::test(start_paused = true)]
async fn an_automatic_extension_exchanges_what_was_not_reached_before() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    nodes[3].set_fault(Fault::Refuse);
    let locks = builder(&nodes).auto_extend(true).build().unwrap();
    let guard = locks.resume(&lease).await.unwrap();
    nodes[3].heal();
    sleep(5_000 * MS).await;
    let token = Some(guard.token().as_bytes().to_vec());
    assert!(nodes.iter().all(|node| node.get(KEY) == token));
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_no_old_token_behind() {
    for fault in [Fault::Refuse, Fault::Hang, Fault::Delay(300 * MS)] {
        let nodes = nodes(5);
        let lease = lease(&nodes).await;
        nodes[3..]
            .iter()
            .for_each(|node| node.set_fault(fault.clone()));
        let locks = locks(&nodes);
        let guard = locks.resume(&lease).await.unwrap();
        guard.release().await.unwrap();
        sleep(400 * MS).await;
        nodes.iter().for_each(MemoryNode::heal);
        sleep(2_000 * MS).await;
        assert_eq!(holding(&nodes, KEY), [], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_exchanged_is_known_to_the_next_lease() {
    let nodes = nodes(5);
    let lease = lease(&nodes).await;
    nodes[3..]
        .iter()
        .for_each(|node| node.set_fault(Fault::Refuse));
    let guard = locks(&nodes).resume(&lease).await.unwrap();
    let next = guard.into_lease().unwrap();
    assert_eq!(next.tokens().count(), 2);
    nodes.iter().for_each(MemoryNode::heal);
    nodes[..2]
        .iter()
        .for_each(|node| node.set_fault(Fault::Hang));
    let guard = locks(&nodes).resume(&next).await.unwrap();
    nodes.iter().for_each(MemoryNode::heal);
    guard.release().await.unwrap();
    sleep(200 * MS).await;
    assert_eq!(holding(&nodes, KEY), []);
}

#[tokio::test(start_paused = true)]
async fn a_resume_dropped_at_any_await_leaves_the_lease_as_it_was() {
    for delays in [[10; 5], [5, 15, 25, 35, 45], [0, 0, 20, 20, 20]] {
        for polls in 0.. {
            let nodes = nodes(5);
            let lease = lease(&nodes).await;
            let locks = locks(&nodes);
            for (node, delay) in nodes.iter().zip(delays) {
                node.set_fault(Fault::Delay(MS * delay));
            }
            if let Some(guard) = drop_after(polls, locks.resume(&lease)).await {
                drop(guard.unwrap());
                break;
            }
            sleep(100 * MS).await;
            let token = Some(lease.token().as_bytes().to_vec());
            assert!(nodes.iter().all(|node| node.get(KEY) == token), "{polls}");
            assert!(nodes[0].pttl(KEY) > 9_500, "that of the exchange");
            let guard = locks.resume(&lease).await.unwrap();
            guard.release().await.unwrap();
            sleep(100 * MS).await;
            assert_eq!(holding(&nodes, KEY), [], "{polls}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_acquire_had_no_answer_counts_when_it_is_exchanged() {
    let nodes = nodes(5);
    // Two have the key, but nobody has heard of it. A release behind the acquire names the old token.
    nodes[..2]
        .iter()
        .for_each(|node| node.set_fault(Fault::LoseReply));
    let lease = lease(&nodes).await;
    nodes.iter().for_each(MemoryNode::heal);
    // One of those that are known to have it has forgotten it.
    nodes[4].forget();
    let guard = locks(&nodes).resume(&lease).await.unwrap();
    guard.extend(10_000 * MS).await.unwrap();
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
        refused.to_string().contains("memory-3: refused"),
        "{refused}"
    );
    assert!(matches!(
        locks.force_release("").await,
        Err(ForceReleaseError::Invalid(_))
    ));
}
