//! What a server refuses is told by its own words.

use std::time::Instant;

use lock_core::{AcquireError, DistributedLockExt, LockRequest, ReleaseError, Reply};
use lock_testkit::Connection;

use super::support::*;

/// C02, C41.
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

/// C41.
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

/// C43.
#[apply(async_test!)]
async fn a_full_or_read_only_server_is_quoted_and_a_holder_can_still_let_go() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    granted_everywhere(&guard).await;
    ask(&servers[0], &["CONFIG", "SET", "maxmemory", "1"]);
    let other = locks.lock("other").await.unwrap();
    other.release().await.unwrap();
    ask(&servers[1], &["CONFIG", "SET", "maxmemory", "1"]);
    let Err(AcquireError::Unavailable(outage)) = locks.try_lock("other").await else {
        panic!("not an outage");
    };
    assert!(outage.to_string().contains("OOM"), "{outage}");
    let is_given_back = || get(&servers[2], "other").is_none();
    until("the granted key is gone", 6_000 * MS, is_given_back).await;
    guard.extend(120_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    until("released", 6_000 * MS, || keys(&servers) == 0).await;
}

/// C41.
#[apply(async_test!)]
async fn a_password_that_was_set_meanwhile_is_told_and_brings_no_storm_of_connections() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    // They stay what they are, while everybody else needs the password.
    let mut operators: Vec<_> = servers
        .iter()
        .map(|server| server.connect().unwrap())
        .collect();
    let accepted = |operator: &mut Connection| {
        let Reply::Bytes(stats) = operator.command(&["INFO", "stats"]).unwrap() else {
            panic!("no stats");
        };
        let stats = String::from_utf8(stats).unwrap();
        let count = stats.split("total_connections_received:").nth(1).unwrap();
        let count = count.lines().next().unwrap();
        count.parse::<u64>().unwrap()
    };
    for operator in &mut operators {
        for words in [
            &["CONFIG", "SET", "requirepass", "p"][..],
            &["CLIENT", "KILL", "TYPE", "normal"][..],
        ] {
            operator.command(words).unwrap();
        }
    }
    let before: Vec<_> = operators.iter_mut().map(accepted).collect();
    let started = Instant::now();
    while started.elapsed() < 1_000 * MS {
        let request = LockRequest::new(KEY).max_wait(30_000 * MS);
        let Err(AcquireError::Unavailable(outage)) = locks.lock(request).await else {
            panic!("no outage");
        };
        assert!(outage.waited < LONG, "it gives up early: {outage}");
        assert!(outage.to_string().contains("NOAUTH"), "{outage}");
    }
    let most = 10 + started.elapsed().as_millis() / 100;
    for (operator, before) in operators.iter_mut().zip(before) {
        let connections = accepted(operator) - before;
        assert!(u128::from(connections) < most, "{connections}");
    }
}
