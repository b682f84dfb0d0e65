//! Calls that are dropped half-way.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Redlock};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::Node;

const TTL: Duration = Duration::from_secs(60);

/// What is dropped.
#[derive(Clone, Copy, Debug)]
enum Call {
    Acquire,
    Body,
    Extend,
    Release,
}

/// Starts the call and drops it after a while.
async fn drop_half_way(locks: &Redlock<Node>, call: Call, after: Duration) {
    let request = LockRequest::new(KEY).ttl(TTL).max_wait(LONG);
    match call {
        Call::Acquire => drop(timeout(after, locks.acquire(&request)).await),
        Call::Body => {
            let body = async |_: &_| sleep(LONG).await;
            let run = locks.with_lock(request.auto_extend(true), body);
            assert!(timeout(after, run).await.is_err());
        }
        Call::Extend => {
            if let Some(guard) = locks.try_acquire(&request).await.ok().flatten() {
                drop(timeout(after, guard.extend(TTL)).await);
            }
        }
        Call::Release => {
            if let Some(guard) = locks.try_acquire(&request).await.ok().flatten() {
                drop(timeout(after, guard.release()).await);
                assert!(!guard.is_valid());
            }
        }
    }
}

/// Servers that let commands wait: they run later, or never if their connection ends before.
fn slow_down(servers: &[RedisServer]) {
    for server in servers {
        ask(server, &["CLIENT", "PAUSE", "500", "WRITE"]);
    }
}

/// C12.
#[apply(async_test!)]
async fn calls_that_are_dropped_half_way_leave_no_key() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    for call in [Call::Acquire, Call::Body, Call::Extend, Call::Release] {
        for slow in 0..=2 {
            for _ in 0..4 {
                if slow > 0 && !matches!(call, Call::Acquire | Call::Body) {
                    slow_later(&servers, slow);
                } else {
                    slow_down(&servers[..slow]);
                }
                let longest = if slow > 0 { 150 * MS } else { 2 * MS };
                drop_half_way(&locks, call, random_up_to(longest)).await;
            }
            let what = format!("{call:?} is cleaned up, {slow} slow");
            until(&what, TTL / 10, || keys(&servers) == 0).await;
        }
    }
}

/// Slow only when the lock has been acquired.
fn slow_later(servers: &[RedisServer], count: usize) {
    let slow = servers[..count]
        .iter()
        .map(|server| server.connect().unwrap())
        .collect::<Vec<_>>();
    spawn(async move {
        sleep(random_up_to(4 * MS)).await;
        for mut connection in slow {
            connection
                .command(&["CLIENT", "PAUSE", "500", "WRITE"])
                .unwrap();
        }
    });
}

/// C12.
#[apply(async_test!)]
async fn a_release_that_was_dropped_half_way_can_be_asked_for_again() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    for _ in 0..20 {
        let request = LockRequest::new(KEY).ttl(TTL).max_wait(LONG);
        let guard = locks.lock(request).await.unwrap();
        servers[0].pause().unwrap();
        servers[1].pause().unwrap();
        drop(timeout(random_up_to(20 * MS), guard.release()).await);
        servers[0].resume().unwrap();
        servers[1].resume().unwrap();
        timeout(LONG, released(&guard)).await.unwrap().unwrap();
        until("released", TTL / 10, || keys(&servers) == 0).await;
    }
}
