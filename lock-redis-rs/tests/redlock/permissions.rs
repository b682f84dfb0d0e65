//! What a server refuses is told by its own words.

use lock_core::{AcquireError, DistributedLockExt, LockRequest, ReleaseError};

use crate::support::*;

#[apply(async_test!)]
async fn missing_permissions_are_reported_at_once_with_the_servers_words() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for server in &servers[..2] {
        ask(server, &["ACL", "SETUSER", "default", "-set"]);
    }
    let request = LockRequest::new(KEY).max_wait(30_000 * MS);
    let result = locks.lock(request).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(outage.attempts, 1);
    let line = format!("{}, {}: NOPERM", servers[0].addr(), servers[1].addr());
    assert!(outage.to_string().contains(&line), "{outage}");
}

#[apply(async_test!)]
async fn a_release_that_is_not_allowed_is_no_expired_lock() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for denied in ["-del", "-eval -evalsha"] {
        let guard = locks
            .lock(LockRequest::new(KEY).ttl(3_000 * MS))
            .await
            .unwrap();
        for server in &servers {
            let words = ["ACL", "SETUSER", "default"]
                .into_iter()
                .chain(denied.split(' '));
            ask(server, &words.collect::<Vec<_>>());
        }
        let result = guard.release().await;
        let Err(ReleaseError::Unavailable { nodes, .. }) = &result else {
            panic!("{result:?}");
        };
        let shown = nodes.to_string();
        assert!(
            shown.contains("NOPERM") || shown.contains("can't run this command"),
            "{shown}"
        );
        for server in &servers {
            ask(server, &["ACL", "SETUSER", "default", "+@all"]);
        }
        // The release goes on by itself as soon as it is allowed.
        until("released", 6_000 * MS, || keys(&servers) == 0).await;
    }
}

#[apply(async_test!)]
async fn the_commands_that_a_lock_needs_are_enough() {
    let servers = servers(1);
    let rules = "ACL SETUSER app on >pw ~lock:* +set +get +pttl +pexpire +del +eval +evalsha";
    ask(&servers[0], &rules.split(' ').collect::<Vec<_>>());
    let url = servers[0].url().replace("redis://", "redis://app:pw@");
    let node = lock_redis_rs::RedisRsNode::new(url).unwrap();
    let locks = lock_core::Redlock::builder()
        .nodes([node])
        .prefix("lock:")
        .node_timeout(NODE_TIMEOUT)
        .build()
        .unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    let held = LockRequest::new(KEY).fail_if_held(true);
    assert!(matches!(
        locks.lock(held).await,
        Err(AcquireError::Contended(_))
    ));
    guard.extend(60_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    until("released", 5_000 * MS, || keys(&servers) == 0).await;
    let kept = LockRequest::new(KEY)
        .ttl(2_000 * MS)
        .hold_at_least(1_000 * MS);
    locks.lock(kept).await.unwrap().release().await.unwrap();
    assert!(pttl(&servers[0], "lock:k") <= 1_000);
}

#[apply(async_test!)]
async fn a_full_or_read_only_server_is_quoted_and_a_holder_can_still_let_go() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    until("granted everywhere", 5_000 * MS, || {
        guard.votes().granted == 3
    })
    .await;
    for server in &servers[..2] {
        ask(server, &["CONFIG", "SET", "maxmemory", "1"]);
    }
    let Err(AcquireError::Unavailable(outage)) = locks.try_lock("other").await else {
        panic!("not an outage");
    };
    assert!(outage.to_string().contains("OOM"), "{outage}");
    guard.extend(120_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    until("released", 6_000 * MS, || keys(&servers) == 0).await;
}
