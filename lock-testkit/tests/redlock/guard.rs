//! The restart guard on real servers.

use lock_core::check::Finding;
use lock_core::{
    AcquireError, DistributedLockExt, LockRequest, Redlock, RedlockBuilder, RestartGuard,
};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::{Node, node};

const MAX_TTL: std::time::Duration = std::time::Duration::from_secs(3);

fn guarded(servers: &[RedisServer]) -> RedlockBuilder<Node> {
    let guard = RestartGuard::new(MAX_TTL).clock_skew(10 * MS);
    builder(servers).ttl(MAX_TTL).restart_guard(guard)
}

async fn bootstrapped(servers: &[RedisServer]) -> Redlock<Node> {
    let locks = guarded(servers).build().unwrap();
    assert_eq!(locks.bootstrap().await.unwrap(), servers.len());
    locks
}

/// How long a server says that it is in quarantine still, `None` if it grants locks.
async fn quarantine(locks: &Redlock<Node>) -> Option<String> {
    match locks.try_lock("probe").await {
        Ok(guard) => {
            drop(guard);
            None
        }
        Err(AcquireError::Unavailable(outage)) => Some(outage.to_string()),
        other => panic!("{other:?}"),
    }
}

#[apply(async_test!)]
async fn a_server_that_restarted_grants_nothing_before_the_locks_it_forgot_have_ended() {
    let servers = servers(1);
    let locks = bootstrapped(&servers).await;
    let guard = locks.lock(KEY).await.unwrap();
    servers[0].kill().unwrap();
    servers[0].restart().unwrap();
    let request = LockRequest::new(KEY).max_wait(LONG);
    let second = locks.lock(request).await.unwrap();
    assert!(!guard.is_valid() && second.is_valid());
}

#[apply(async_test!)]
async fn a_server_that_comes_back_with_its_keys_is_in_quarantine_too_as_they_may_be_old() {
    let servers = servers(1);
    let locks = bootstrapped(&servers).await;
    assert_eq!(quarantine(&locks).await, None);
    servers[0].restart_with_data().unwrap();
    assert!(get(&servers[0], ":restart-guard").is_some());
    let started = std::time::Instant::now();
    loop {
        match quarantine(&locks).await {
            Some(words) if words.contains("QUARANTINE") => break,
            // It is being connected to.
            seen => assert!(started.elapsed() < LONG, "{seen:?}"),
        }
        sleep(5 * MS).await;
    }
}

#[apply(async_test!)]
async fn a_flushed_server_is_in_quarantine() {
    let servers = servers(1);
    let locks = bootstrapped(&servers).await;
    assert_eq!(quarantine(&locks).await, None);
    ask(&servers[0], &["FLUSHALL"]);
    let words = quarantine(&locks).await.unwrap();
    assert!(words.contains("QUARANTINE"), "{words}");
}

#[apply(async_test!)]
async fn without_the_right_to_info_the_guard_sees_the_loss_of_its_key_and_says_so() {
    let servers = servers(1);
    let rules = "ACL SETUSER app on >pw ~lock:* +set +get +pttl +pexpire +del +eval +evalsha +time";
    ask(&servers[0], &rules.split(' ').collect::<Vec<_>>());
    let url = servers[0].url().replace("redis://", "redis://app:pw@");
    let guard = RestartGuard::new(MAX_TTL);
    let builder = Redlock::builder().nodes([node(url)]).prefix("lock:");
    let builder = builder.ttl(MAX_TTL).node_timeout(NODE_TIMEOUT);
    let locks = builder.restart_guard(guard).build().unwrap();
    locks.bootstrap().await.unwrap();
    assert_eq!(quarantine(&locks).await, None);
    let report = locks.check().await;
    let is_reduced = |finding: &Finding| matches!(finding, Finding::GuardReduced);
    assert!(
        report.nodes()[0].findings.iter().any(is_reduced),
        "{report}"
    );
    // With the right, it goes on with the guard as it is.
    ask(&servers[0], &["ACL", "SETUSER", "app", "+info"]);
    assert_eq!(quarantine(&locks).await, None);
    assert!(
        !locks.check().await.nodes()[0]
            .findings
            .iter()
            .any(is_reduced)
    );
    ask(&servers[0], &["DEL", "lock::restart-guard"]);
    assert!(quarantine(&locks).await.unwrap().contains("QUARANTINE"));
}

#[apply(async_test!)]
async fn a_lock_with_a_guard_lives_as_any_other() {
    let servers = servers(3);
    let locks = bootstrapped(&servers).await;
    for request in [
        LockRequest::new(KEY),
        LockRequest::many(["a", "b"]),
        LockRequest::new(KEY).fencing(true),
        LockRequest::new(KEY).auto_extend(true),
    ] {
        let guard = locks.lock(request.clone()).await.unwrap();
        granted_everywhere(&guard).await;
        assert!(locks.try_lock(request).await.unwrap().is_none());
        guard.extend(MAX_TTL).await.unwrap();
        let lease = guard.into_lease().unwrap();
        let guard = locks.resume(&lease).await.unwrap();
        guard.release().await.unwrap();
    }
}
