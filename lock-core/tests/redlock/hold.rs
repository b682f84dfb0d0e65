//! `hold_at_least`: only a release may shorten a ttl, and not below that.

use lock_core::{DistributedLockExt, InvalidInput, LockRequest};
use lock_testkit::Fault;

use crate::support::*;

fn request() -> LockRequest {
    LockRequest::new(KEY)
        .ttl(10_000 * MS)
        .hold_at_least(4_000 * MS)
}

#[tokio::test(start_paused = true)]
async fn a_lock_stays_taken_for_what_it_was_to_be_held_at_least() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    for by_drop in [false, true] {
        let guard = locks.lock(request()).await.unwrap();
        tokio::time::sleep(1_000 * MS).await;
        if by_drop {
            drop(guard);
        } else {
            guard.release().await.unwrap();
            assert!(!guard.is_valid());
        }
        tokio::time::sleep(2_950 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
        assert!(locks.try_lock(KEY).await.unwrap().is_none());
        tokio::time::sleep(60 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_after_that_deletes() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let guard = locks.lock(request()).await.unwrap();
    tokio::time::sleep(4_001 * MS).await;
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_failed_holds_nothing() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::LoseReply);
    nodes[1].set_fault(Fault::LoseReply);
    assert!(locks.try_lock(request()).await.is_err());
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_sent_again_later_keeps_the_promise_too() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks.lock(request()).await.unwrap();
    settle().await;
    nodes[2].set_fault(Fault::Refuse);
    guard.release().await.unwrap();
    tokio::time::sleep(500 * MS).await;
    nodes[2].heal();
    tokio::time::sleep(2_000 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    tokio::time::sleep(1_600 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn it_must_not_exceed_the_ttl() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let ttl = 10_000 * MS;
    let hold = ttl + MS;
    let result = locks
        .lock(LockRequest::new(KEY).ttl(ttl).hold_at_least(hold))
        .await;
    let Err(lock_core::AcquireError::Invalid(invalid)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(invalid, InvalidInput::HoldAboveTtl { hold, ttl });
    assert_eq!(nodes[0].calls().total(), 0);
}
