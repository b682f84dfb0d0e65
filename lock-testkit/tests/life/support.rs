//! What the tests share.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use lock_core::{
    AcquireError, DistributedLockExt, LockGuard, LockRequest, Redlock, RedlockBuilder,
    ReleaseError, Reply,
};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
pub(crate) use crate::rt::*;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The key of most tests.
pub(crate) const KEY: &str = "k";

/// Long enough that it tells a hang from a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn servers(count: usize) -> Vec<RedisServer> {
    RedisServer::start_many(count).unwrap()
}

pub(crate) fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

pub(crate) fn builder(urls: Vec<String>) -> RedlockBuilder<Node> {
    Redlock::builder().nodes(urls.into_iter().map(node))
}

/// A lock with clients of its own, each of which is connected.
pub(crate) async fn locks(servers: &[RedisServer]) -> Redlock<Node> {
    let locks = builder(urls(servers)).build().unwrap();
    let mut is_warm = false;
    for _ in 0..100 {
        let request = LockRequest::new("warm-up").max_wait(LONG);
        let guard = locks.lock(request).await.unwrap();
        sleep(20 * MS).await;
        is_warm = guard.votes().granted == servers.len();
        // It tells whether there was a quorum, which may be too much for a cold start.
        guard.release().await.ok();
        if is_warm {
            break;
        }
    }
    assert!(is_warm, "no lock on all servers");
    until("the warm-up is over", LONG, || keys(servers) == 0).await;
    locks
}

pub(crate) async fn granted_everywhere(guard: &LockGuard) {
    until("granted everywhere", LONG, || {
        let votes = guard.votes();
        votes.granted == votes.nodes
    })
    .await;
}

/// Releases it; a server that is late, as on a busy machine, is asked again.
pub(crate) async fn released(guard: &LockGuard) -> Result<(), ReleaseError> {
    let started = Instant::now();
    loop {
        match guard.release().await {
            Err(ReleaseError::Unavailable { .. }) if started.elapsed() < LONG => {
                sleep(20 * MS).await;
            }
            result => return result,
        }
    }
}

/// Fails if somebody else can have the lock.
pub(crate) async fn refused(locks: &Redlock<Node>, request: LockRequest) {
    let started = Instant::now();
    loop {
        match locks.try_lock(request.clone()).await {
            // Servers that are late.
            Err(AcquireError::Unavailable(_)) if started.elapsed() < LONG => sleep(20 * MS).await,
            result => return assert!(result.unwrap().is_none()),
        }
    }
}

/// For a lock that is extended automatically.
pub(crate) fn extended(key: impl AsRef<[u8]>, ttl: Duration) -> LockRequest {
    LockRequest::new(key)
        .ttl(ttl)
        .max_wait(LONG)
        .auto_extend(true)
}

pub(crate) fn ask(server: &RedisServer, words: &[&str]) -> Reply {
    server.command(words).unwrap()
}

pub(crate) fn get(server: &RedisServer, key: &str) -> Option<String> {
    match ask(server, &["GET", key]) {
        Reply::Bytes(value) => Some(String::from_utf8(value).unwrap()),
        _ => None,
    }
}

/// Below zero: -1 without an end, -2 no key.
pub(crate) fn pttl(server: &RedisServer, key: &str) -> i64 {
    int(ask(server, &["PTTL", key]))
}

fn int(reply: Reply) -> i64 {
    match reply {
        Reply::Int(value) => value,
        other => panic!("{other:?}"),
    }
}

/// How many keys there are on all servers together.
pub(crate) fn keys(servers: &[RedisServer]) -> i64 {
    let size = |server| int(ask(server, &["DBSIZE"]));
    servers.iter().map(size).sum()
}

/// How many commands about locks clients have sent to all servers together.
pub(crate) fn requests(servers: &[RedisServer]) -> u64 {
    let sent = |server| {
        let Reply::Bytes(stats) = ask(server, &["INFO", "commandstats"]) else {
            panic!("no stats");
        };
        let stats = String::from_utf8(stats).unwrap();
        let calls = |name: &str| {
            let start = format!("cmdstat_{name}:calls=");
            let rest = stats.lines().find_map(|line| line.strip_prefix(&start))?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        ["set", "eval", "evalsha"]
            .into_iter()
            .filter_map(calls)
            .sum::<u64>()
    };
    servers.iter().map(sent).sum()
}

/// For so long, nobody sends anything about any lock.
pub(crate) async fn all_quiet(servers: &[RedisServer], time: Duration) {
    let before = requests(servers);
    sleep(time).await;
    assert_eq!(requests(servers), before, "somebody sends commands still");
}

/// Polls a condition. The limit tells a hang or a ttl from an event, no more.
pub(crate) async fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(5 * MS).await;
    }
}

/// A random number below `limit`.
pub(crate) fn random(limit: u64) -> u64 {
    RandomState::new().hash_one(0) % limit
}

pub(crate) fn random_up_to(limit: Duration) -> Duration {
    Duration::from_micros(random(u64::try_from(limit.as_micros()).unwrap().max(1)))
}
