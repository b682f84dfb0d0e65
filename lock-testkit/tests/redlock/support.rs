//! What the tests share.

use std::time::{Duration, Instant};

use lock_core::{DistributedLockExt, LockGuard, Redlock, RedlockBuilder, Reply};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
pub(crate) use crate::rt::*;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Long enough that it tells a hang from a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// How long a node may take.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// The key of most tests.
pub(crate) const KEY: &str = "k";

pub(crate) fn servers(count: usize) -> Vec<RedisServer> {
    RedisServer::start_many(count).unwrap()
}

pub(crate) fn nodes(servers: &[RedisServer]) -> impl Iterator<Item = Node> {
    servers.iter().map(|server| node(server.url()))
}

pub(crate) fn locks(servers: &[RedisServer]) -> Redlock<Node> {
    builder(servers).build().unwrap()
}

/// Nodes have longer than by default: that a machine is busy is no finding.
pub(crate) fn builder(servers: &[RedisServer]) -> RedlockBuilder<Node> {
    let nodes = nodes(servers);
    Redlock::builder().nodes(nodes).node_timeout(NODE_TIMEOUT)
}

/// The lock with every node connected.
pub(crate) async fn warm_locks(servers: &[RedisServer]) -> Redlock<Node> {
    let locks = locks(servers);
    let guard = locks.lock("warm-up").await.unwrap();
    granted_everywhere(&guard).await;
    guard.release().await.unwrap();
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

pub(crate) fn ask(server: &RedisServer, words: &[&str]) -> Reply {
    server.command(words).unwrap()
}

/// The value of a key.
pub(crate) fn get(server: &RedisServer, key: &str) -> Option<Vec<u8>> {
    match ask(server, &["GET", key]) {
        Reply::Bytes(value) => Some(value),
        _ => None,
    }
}

pub(crate) fn pttl(server: &RedisServer, key: &str) -> i64 {
    match ask(server, &["PTTL", key]) {
        Reply::Int(ttl) => ttl,
        other => panic!("{other:?}"),
    }
}

/// How many keys there are on all servers together.
pub(crate) fn keys(servers: &[RedisServer]) -> i64 {
    let size = |server| match ask(server, &["DBSIZE"]) {
        Reply::Int(size) => size,
        other => panic!("{other:?}"),
    };
    servers.iter().map(size).sum()
}

/// How often a server ran a command, those inside scripts included.
pub(crate) fn runs(server: &RedisServer, command: &str) -> u64 {
    let Reply::Bytes(stats) = ask(server, &["INFO", "commandstats"]) else {
        panic!("no stats");
    };
    let stats = String::from_utf8(stats).unwrap();
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Polls a condition. The limit tells a hang or a ttl from an event, no more.
pub(crate) async fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(5 * MS).await;
    }
}
