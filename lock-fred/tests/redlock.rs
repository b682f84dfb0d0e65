//! A lock over five nodes, on real servers.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use lock_core::{AcquireError, DistributedLockExt, ExtendError, LockRequest, Redlock};
use lock_fred::FredNode;
use support::*;

fn servers() -> Vec<RedisServer> {
    RedisServer::start_many(5).unwrap()
}

fn locks(servers: &[RedisServer]) -> Redlock<FredNode> {
    let nodes = servers.iter().map(|server| FredNode::new(server.url()));
    let nodes = nodes.collect::<Result<Vec<_>, _>>().unwrap();
    // Longer than by default: that a machine is busy is no finding.
    let locks = Redlock::builder().nodes(nodes).node_timeout(10 * SHORT);
    locks.build().unwrap()
}

/// The lock with every node connected.
async fn warm_locks(servers: &[RedisServer]) -> Redlock<FredNode> {
    let locks = locks(servers);
    let guard = locks.lock("warm-up").await.unwrap();
    eventually("all nodes granted", || guard.votes().granted == 5).await;
    guard.release().await.unwrap();
    eventually("all is clean", || all_keys(servers) == 0).await;
    locks
}

fn all_keys(servers: &[RedisServer]) -> i64 {
    servers.iter().map(keys).sum()
}

#[tokio::test]
async fn a_lock_is_taken_extended_and_released_on_every_server() {
    let servers = servers();
    let locks = locks(&servers);
    for _ in 0..3 {
        let guard = locks.lock(LockRequest::new("k").ttl(TTL)).await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_none());
        eventually("granted everywhere", || guard.votes().granted == 5).await;
        assert_eq!(all_keys(&servers), 5);
        guard.extend(2 * TTL).await.unwrap();
        assert!(guard.remaining() > TTL);
        guard.release().await.unwrap();
        eventually("released everywhere", || all_keys(&servers) == 0).await;
        // The next round starts with scripts that no server knows.
        for server in &servers {
            server.command(&["SCRIPT", "FLUSH"]).unwrap();
        }
    }
}

#[tokio::test]
async fn two_of_five_hung_servers_cost_no_lock_and_three_are_an_outage_that_leaves_nothing() {
    let servers = servers();
    let locks = warm_locks(&servers).await;
    for server in &servers[..2] {
        server.pause().unwrap();
    }
    for n in 0..20 {
        let request = LockRequest::new(format!("k{n}")).ttl(TTL);
        let guard = locks.lock(request).await.unwrap();
        guard.extend(TTL).await.unwrap();
        guard.release().await.unwrap();
    }
    servers[2].pause().unwrap();
    let request = LockRequest::new("k").ttl(TTL).max_wait(10 * SHORT);
    let result = locks.lock(request).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    let shown = outage.to_string();
    for server in &servers[..3] {
        assert!(shown.contains(&server.addr().to_string()), "{shown}");
    }
    for server in &servers[..3] {
        server.resume().unwrap();
    }
    eventually("no key is left", || all_keys(&servers) == 0).await;
    let request = LockRequest::new("k").ttl(TTL).max_wait(LONG);
    locks.lock(request).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn servers_that_died_come_back_by_themselves_and_one_that_forgot_is_a_lost_lock() {
    let servers = servers();
    let locks = warm_locks(&servers).await;
    let guard = locks.lock(LockRequest::new("k").ttl(TTL)).await.unwrap();
    eventually("granted everywhere", || guard.votes().granted == 5).await;
    for server in &servers {
        server.kill().unwrap();
    }
    let request = LockRequest::new("other").max_wait(LONG / 5);
    let Err(AcquireError::Unavailable(outage)) = locks.lock(request).await else {
        panic!("no outage");
    };
    let shown = outage.to_string();
    assert!(shown.contains("refused"), "{shown}");
    for server in &servers {
        server.restart().unwrap();
    }
    let successor = LockRequest::new("k").ttl(TTL).max_wait(LONG);
    let successor = locks.lock(successor).await.unwrap();
    let lost = guard.extend(TTL).await;
    assert!(matches!(lost, Err(ExtendError::Lost)), "{lost:?}");
    successor.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_random_moments_leave_no_key() {
    let servers = servers();
    let locks = warm_locks(&servers).await;
    let mut finished = 0;
    for i in 0..100 {
        let request = LockRequest::new(format!("k{i}")).ttl(TTL);
        let micros = RandomState::new().hash_one(i) % 1_500;
        let acquire = locks.lock(request);
        let result = tokio::time::timeout(Duration::from_micros(micros), acquire).await;
        finished += usize::from(result.is_ok());
        // A guard is dropped here too: it is released in the background as well.
        drop(result);
    }
    let start = Instant::now();
    while all_keys(&servers) != 0 {
        assert!(start.elapsed() < TTL / 10, "{} keys", all_keys(&servers));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(finished < 100, "no acquire was cancelled");
}

#[test]
fn a_lock_works_on_one_runtime_after_the_other() {
    let servers = servers();
    let locks = locks(&servers);
    for _ in 0..5 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let request = LockRequest::new("k").ttl(TTL).max_wait(LONG);
            let guard = locks.lock(request).await.unwrap();
            guard.release().await.unwrap();
        });
    }
}
