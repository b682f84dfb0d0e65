//! Holders that die or stall.

use std::thread;

use lock_core::{DistributedLockExt, LockRequest};

use super::process::{OtherProcess, told};
use super::support::*;

/// C06.
#[apply(async_test_on_threads!)]
async fn a_killed_holder_blocks_others_for_one_ttl() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let holder = OtherProcess::start("extend", &servers);
    let (holder, held) = told(holder).await;
    assert_eq!(held, "held");
    // It is extended for longer than its ttl, and no key ever lives for longer than that.
    for _ in 0..30 {
        for server in &servers {
            let ttl = pttl(server, KEY);
            assert!(ttl != -1 && ttl <= 2000, "{ttl}");
        }
        let rival = LockRequest::new(KEY).ttl(2 * SECOND);
        refused(&locks, rival).await;
        sleep(100 * MS).await;
    }
    holder.kill();
    let guard = locks.lock(extended(KEY, 60 * SECOND)).await.unwrap();
    granted_everywhere(&guard).await;
    assert!(servers.iter().all(|server| pttl(server, KEY) > 0));
    released(&guard).await.unwrap();
}

#[test]
fn a_holder_that_was_stopped_knows_at_once_that_the_lock_is_lost() {
    let servers = servers(3);
    let mut holder = OtherProcess::start("stall", &servers);
    assert_eq!(holder.next(), "valid");
    let stopped = holder.stop();
    thread::sleep(5 * SECOND);
    // So that it cannot have learned it from any answer.
    for server in &servers {
        server.pause().unwrap();
    }
    drop(stopped);
    assert_eq!(holder.next(), "not valid");
    for server in &servers {
        server.resume().unwrap();
    }
    // The keys are gone, and are not set again.
    thread::sleep(2 * SECOND);
    assert_eq!(keys(&servers), 0);
    holder.kill();
}
