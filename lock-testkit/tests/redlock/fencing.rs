//! Fencing tokens on real servers.

use std::time::Instant;

use lock_core::{AcquireError, DistributedLockExt, FencingToken, LockRequest, Redlock};
use lock_testkit::RedisServer;

use super::cluster::{SLOTS, cluster_server, give_slots, serves};
use super::support::*;
use crate::backend::Node;

const COUNTER: &str = "{k}:fencing-counter";

fn fenced(resource: &str) -> LockRequest {
    LockRequest::new(resource).fencing(true).max_wait(LONG)
}

fn counter(server: &RedisServer) -> Option<u64> {
    let value = String::from_utf8(get(server, COUNTER)?).unwrap();
    Some(value.split(' ').next().unwrap().parse().unwrap())
}

/// Waits until every node is connected.
async fn all_answer(locks: &Redlock<Node>) {
    let started = Instant::now();
    loop {
        let seen = locks.inspect(KEY).await.unwrap();
        if seen.nodes().iter().all(|node| node.found.is_ok()) {
            return;
        }
        assert!(started.elapsed() < LONG, "{seen:?}");
        sleep(20 * MS).await;
    }
}

#[apply(async_test!)]
async fn tokens_grow_while_one_server_after_the_other_restarts_empty_and_counters_come_in_step() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    let mut largest = FencingToken::new(0);
    for round in 0..9 {
        let guard = locks.lock(fenced(KEY)).await.unwrap();
        let token = guard.fencing_token().unwrap();
        assert!(token > largest, "{token} after {largest}");
        largest = token;
        granted_everywhere(&guard).await;
        // Those behind are raised in the background; one whose clock is ahead stays ahead for once.
        let least = || servers.iter().map(counter).min().flatten();
        until("all have the token", LONG, || least() >= Some(token.get())).await;
        guard.release().await.unwrap();
        until("released", LONG, || {
            servers.iter().all(|server| get(server, KEY).is_none())
        })
        .await;
        let server = &servers[round % 3];
        if round % 2 == 0 {
            server.restart().unwrap();
            all_answer(&locks).await;
        }
    }
}

/// Each number is written and read with all its digits.
#[apply(async_test!)]
async fn a_counter_has_all_digits_and_the_token_that_raised_it() {
    let servers = servers(1);
    let locks = locks(&servers);
    for _ in 0..12 {
        let guard = locks.lock(fenced(KEY)).await.unwrap();
        let value = format!("{} {}", guard.fencing_token().unwrap(), guard.token());
        assert_eq!(get(&servers[0], COUNTER).unwrap(), value.as_bytes());
        let week = 7 * 24 * 60 * 60 * 1000;
        assert!((week - 60_000..=week).contains(&pttl(&servers[0], COUNTER)));
        guard.release().await.unwrap();
    }
}

#[apply(async_test!)]
async fn on_a_cluster_a_counter_shares_the_slot_of_its_lock_or_says_why_not() {
    let servers = [cluster_server()];
    give_slots(&servers[0], 0..SLOTS);
    serves(&servers[0]).await;
    let locks = locks(&servers);
    for resource in ["k", "a{b", "{7}", "order:{7}:pay"] {
        let guard = locks.lock(fenced(resource)).await.unwrap();
        assert!(guard.fencing_token().is_some(), "{resource}");
        guard.release().await.unwrap();
    }
    let tagged = LockRequest::many(["{7}a", "{7}b"]).fencing(true);
    assert!(locks.lock(tagged).await.unwrap().fencing_token().is_some());
    for apart in [fenced("a}b"), LockRequest::many(["a", "b"]).fencing(true)] {
        let error = locks.lock(apart).await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains("must share a slot"), "{error}");
    }
    // Without tokens they are locked one after the other.
    assert!(locks.lock(LockRequest::many(["a", "b"])).await.is_ok());
}

/// C41.
#[apply(async_test!)]
async fn the_commands_that_fencing_needs_are_enough() {
    let servers = servers(1);
    let rules = "ACL SETUSER app on >pw ~lock:* ~{lock:* \
                 +set +get +pttl +pexpire +del +eval +evalsha +time";
    ask(&servers[0], &rules.split_whitespace().collect::<Vec<_>>());
    let url = servers[0].url().replace("redis://", "redis://app:pw@");
    let locks = Redlock::builder()
        .nodes([crate::backend::node(url)])
        .prefix("lock:")
        .node_timeout(NODE_TIMEOUT)
        .build()
        .unwrap();
    let guard = locks.lock(fenced(KEY)).await.unwrap();
    let held = fenced(KEY).fail_if_held(true);
    assert!(matches!(
        locks.lock(held).await,
        Err(AcquireError::Contended(_))
    ));
    guard.release().await.unwrap();
    ask(
        &servers[0],
        &["ACL", "SETUSER", "app", "resetkeys", "~lock:*"],
    );
    let denied = locks.lock(fenced(KEY)).await.unwrap_err();
    assert!(matches!(denied, AcquireError::Unavailable(_)), "{denied:?}");
    assert!(locks.lock(KEY).await.is_ok());
}
