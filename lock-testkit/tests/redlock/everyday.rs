//! What works when all is well.

use std::time::Duration;

use lock_core::{
    AcquireError, DistributedLockExt, ExtendError, LockRequest, Redlock, ReleaseError,
};

use super::support::*;
use crate::backend::node;

/// C42.
#[apply(async_test!)]
async fn a_lock_is_taken_extended_and_released_on_every_server() {
    let servers = servers(3);
    let locks = builder(&servers).prefix("app:").build().unwrap();
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(20_000 * MS))
        .await
        .unwrap();
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    granted_everywhere(&guard).await;
    for server in &servers {
        assert_eq!(
            get(server, "app:k").as_deref(),
            Some(guard.token().as_bytes())
        );
        assert!((1..=20_000).contains(&pttl(server, "app:k")));
    }
    // Nobody without the prefix is kept out.
    drop(self::locks(&servers).try_lock(KEY).await.unwrap().unwrap());
    guard.extend(60_000 * MS).await.unwrap();
    let longer = || servers.iter().all(|server| pttl(server, "app:k") > 20_000);
    until("extended everywhere", 5_000 * MS, longer).await;
    guard.release().await.unwrap();
    until("released everywhere", 5_000 * MS, || keys(&servers) == 0).await;
    assert!(locks.try_lock(KEY).await.unwrap().is_some());
}

#[apply(async_test!)]
async fn a_dropped_guard_releases() {
    let servers = servers(3);
    let locks = locks(&servers);
    drop(
        locks
            .lock(LockRequest::new(KEY).ttl(60_000 * MS))
            .await
            .unwrap(),
    );
    until("released", 6_000 * MS, || keys(&servers) == 0).await;
}

/// C13.
#[apply(async_test!)]
async fn scripts_that_a_server_forgot_are_sent_again() {
    let servers = servers(3);
    let locks = locks(&servers);
    let flush = |count| {
        for server in &servers[..count] {
            ask(server, &["SCRIPT", "FLUSH"]);
        }
    };
    for count in [1, 3] {
        let guard = locks.lock(KEY).await.unwrap();
        flush(count);
        guard.extend(60_000 * MS).await.unwrap();
        flush(count);
        // The second attempt asks by script who holds the lock.
        let held = LockRequest::new(KEY)
            .fail_if_held(true)
            .max_wait(5_000 * MS);
        let Err(AcquireError::Contended(contended)) = locks.lock(held).await else {
            panic!("not contended");
        };
        assert_eq!(contended.holder.as_deref(), Some(guard.token().as_bytes()));
        flush(count);
        guard.release().await.unwrap();
        until("released", 5_000 * MS, || keys(&servers) == 0).await;
    }
}

/// C14, C15, C52.
#[apply(async_test!)]
async fn bad_input_sends_nothing() {
    let servers = servers(1);
    let locks = warm_locks(&servers).await;
    let guard = locks.lock(KEY).await.unwrap();
    let sent = |command| runs(&servers[0], command);
    let before = (sent("set"), sent("evalsha"), sent("eval"));
    let year = Duration::from_secs(366 * 24 * 60 * 60);
    for ttl in [
        Duration::ZERO,
        MS / 1_000_000,
        MS / 1000,
        999 * MS / 1000,
        2 * MS,
        300 * year,
        Duration::from_millis(u64::MAX / 2),
        Duration::from_secs(u64::MAX),
        Duration::MAX,
    ] {
        let result = locks.lock(LockRequest::new(KEY).ttl(ttl)).await;
        assert!(
            matches!(result, Err(AcquireError::Invalid(_))),
            "{result:?}"
        );
        let result = guard.extend(ttl).await;
        assert!(matches!(result, Err(ExtendError::Invalid(_))), "{result:?}");
    }
    for resource in [vec![], vec![b'k'; 1 << 20]] {
        assert!(matches!(
            locks.lock(resource).await,
            Err(AcquireError::Invalid(_))
        ));
    }
    assert_eq!((sent("set"), sent("evalsha"), sent("eval")), before);
    guard.release().await.unwrap();
}

/// C51.
#[apply(async_test!)]
async fn binary_names_are_legal_and_distinct() {
    let servers = servers(3);
    let locks = locks(&servers);
    let names: [&[u8]; 4] = [b"\xff\xfe\x00\x0d\x0a", b"\xff", b"\xfe", "🔒".as_bytes()];
    let mut guards = Vec::new();
    for name in names {
        guards.push(locks.lock(name).await.unwrap());
        assert!(locks.try_lock(name).await.unwrap().is_none());
    }
    for server in &servers {
        let all_there = || {
            names
                .iter()
                .all(|name| server.command(&[b"EXISTS".as_slice(), name]).is_ok())
        };
        until("all there", 5_000 * MS, all_there).await;
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    let long = vec![0xfe; 60_000];
    locks.lock(long).await.unwrap().release().await.unwrap();
}

/// C05.
#[apply(async_test!)]
async fn data_under_the_locks_name_is_never_touched() {
    let servers = servers(3);
    let locks = locks(&servers);
    for server in &servers {
        ask(server, &["HSET", KEY, "f", "v"]);
    }
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    let wait = LockRequest::new(KEY).max_wait(NODE_TIMEOUT);
    assert!(matches!(
        locks.lock(wait).await,
        Err(AcquireError::Contended(_))
    ));

    let guard = locks.lock("other").await.unwrap();
    granted_everywhere(&guard).await;
    for (server, words) in servers.iter().zip([
        &["HSET", "other", "f", "v"][..],
        &["SET", "other", "data"][..],
        &["LPUSH", "other", "v"][..],
    ]) {
        ask(server, &["DEL", "other"]);
        ask(server, words);
    }
    assert!(matches!(
        guard.extend(60_000 * MS).await,
        Err(ExtendError::Lost)
    ));
    assert!(matches!(guard.release().await, Err(ReleaseError::NotHeld)));
    drop(guard);
    sleep(300 * MS).await;
    assert_eq!(keys(&servers), 6);
    for server in &servers {
        assert_eq!((pttl(server, KEY), pttl(server, "other")), (-1, -1));
    }
}

/// C49.
#[apply(async_test!)]
async fn one_server_twice_is_refused_whatever_its_database_or_password() {
    let urls = ["redis://127.0.0.1:1/0", "redis://:secret@127.0.0.1:1/3"];
    let nodes = urls.map(|url| node(url.to_owned()));
    let error = Redlock::new(nodes).unwrap_err().to_string();
    assert_eq!(
        error,
        "node 127.0.0.1:1 is listed twice, each node must be an independent server"
    );
}
