//! Servers of a cluster, each of which is a node of a lock by itself alone, and proxies that shard.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use lock_core::node::Subscription;
use lock_core::{
    AcquireError, Command, DistributedLockExt, LockGuard, LockRequest, NodeError, RedisNode,
    Redlock, Reply,
};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::{Node, node};

pub(super) const SLOTS: u16 = 16_384;

pub(super) fn cluster_server() -> RedisServer {
    // So that one slot that nobody has is no matter of the others.
    let builder = RedisServer::builder().arg("--cluster-enabled", "yes");
    let builder = builder.arg("--cluster-require-full-coverage", "no");
    builder.start().unwrap()
}

pub(super) fn give_slots(server: &RedisServer, slots: std::ops::Range<u16>) {
    // Redis before 7.0 takes no range.
    let slots = slots.map(|slot| slot.to_string()).collect::<Vec<_>>();
    let slots = slots.iter().map(String::as_str);
    let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots);
    ask(server, &words.collect::<Vec<_>>());
}

fn slot_of(server: &RedisServer, key: &str) -> String {
    match ask(server, &["CLUSTER", "KEYSLOT", key]) {
        Reply::Int(slot) => slot.to_string(),
        other => panic!("{other:?}"),
    }
}

fn info(server: &RedisServer, words: &[&str]) -> String {
    match ask(server, words) {
        Reply::Bytes(info) => String::from_utf8(info).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Makes a cluster of two servers, and returns the id of the second one.
async fn meet(one: &RedisServer, other: &RedisServer) -> String {
    let port = other.port().to_string();
    ask(one, &["CLUSTER", "MEET", "127.0.0.1", &port]);
    let [one_id, other_id] = [one, other].map(|server| info(server, &["CLUSTER", "MYID"]));
    let knows = |server, id: &str| {
        let nodes = info(server, &["CLUSTER", "NODES"]);
        let mut nodes = nodes.lines();
        nodes.any(|node| node.starts_with(id) && !node.contains("handshake"))
    };
    until("they know each other", LONG, || {
        knows(one, &other_id) && knows(other, &one_id)
    })
    .await;
    other_id
}

/// A server takes writes for its part of a cluster only a moment after its start.
pub(super) async fn serves(server: &RedisServer) {
    until("the cluster is there", LONG, || {
        info(server, &["CLUSTER", "INFO"]).contains("cluster_state:ok")
    })
    .await;
}

async fn held(locks: &Redlock<impl RedisNode + 'static>, names: &[String]) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for name in names {
        let request = LockRequest::new(name).ttl(1_500 * MS).auto_extend(true);
        guards.push(locks.lock(request).await.unwrap());
    }
    guards
}

/// Waits for the loss of one of these guards, and for a time in which each of them would be lost.
async fn only_one_is_lost(guards: &[LockGuard], index: usize) {
    until("lost", LONG, || !guards[index].is_valid()).await;
    sleep(2_000 * MS).await;
    for (number, guard) in guards.iter().enumerate() {
        assert_eq!(guard.is_valid(), number != index, "{number}");
    }
}

/// C39.
#[apply(async_test!)]
async fn parts_of_a_cluster_are_told_as_such_at_the_first_attempt() {
    let parts = [cluster_server(), cluster_server()];
    give_slots(&parts[0], 0..SLOTS / 2);
    give_slots(&parts[1], SLOTS / 2..SLOTS);
    meet(&parts[0], &parts[1]).await;
    let moved = |server: &RedisServer, key: &str| {
        let told = server.command(&["GET", key]);
        told.is_err_and(|error| error.to_string().contains("MOVED"))
    };
    // Their slots are 15495 and 3300.
    let knows = || moved(&parts[0], "a") && moved(&parts[1], "b");
    until("each says that the other has it", LONG, knows).await;

    let plain = servers(1);
    let both = locks(&parts);
    let most = Redlock::builder()
        .nodes(parts.iter().chain(&plain).map(|server| node(server.url())))
        .node_timeout(NODE_TIMEOUT)
        .build()
        .unwrap();
    for key in ["a", "b"] {
        let request = LockRequest::new(key).max_wait(LONG);
        let Err(AcquireError::Unavailable(outage)) = both.lock(request.clone()).await else {
            panic!("no outage");
        };
        assert_eq!(outage.attempts, 1, "{outage}");
        let shown = outage.to_string();
        assert!(shown.contains("MOVED"), "{shown}");
        assert!(shown.contains("part of a cluster"), "{shown}");
        let guard = most.lock(request).await.unwrap();
        guard.release().await.unwrap();
    }
    for server in &parts {
        let errors = info(server, &["INFO", "errorstats"]);
        let count = errors.split("errorstat_MOVED:count=").nth(1).unwrap();
        let count = count.split(['\r', '\n']).next().unwrap();
        // A few of ours, and those that were waited for above.
        assert!(count.parse::<u32>().unwrap() < 5_000, "{errors}");
    }
    until("no key is left", LONG, || {
        keys(&parts) == 0 && keys(&plain) == 0
    })
    .await;
}

/// C40, C64.
#[apply(async_test!)]
async fn a_server_of_a_cluster_locks_several_keys_and_a_slot_that_moves_costs_one_lock() {
    let servers = [cluster_server()];
    let locks = locks(&servers);
    let result = locks.try_lock("k").await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert!(outage.to_string().contains("CLUSTERDOWN"), "{outage}");
    give_slots(&servers[0], 0..SLOTS);
    serves(&servers[0]).await;
    assert_eq!(keys(&servers), 0, "what was refused came later");

    let guard = locks
        .lock(LockRequest::many(["a", "b"]).max_wait(LONG))
        .await
        .unwrap();
    assert!(locks.try_lock("b").await.unwrap().is_none());
    let crossing = LockRequest::many(["b", "c"]);
    assert!(locks.try_lock(crossing).await.unwrap().is_none());
    until("all or nothing", LONG, || keys(&servers) == 2).await;
    guard.release().await.unwrap();
    let tagged = locks.lock(LockRequest::many(["{x}a", "{x}b"])).await;
    tagged.unwrap().release().await.unwrap();
    until("released", LONG, || keys(&servers) == 0).await;

    let names: Vec<_> = (0..50).map(|number| format!("k{number}")).collect();
    let guards = held(&locks, &names).await;
    let other = cluster_server();
    let to = meet(&servers[0], &other).await;
    let slot = slot_of(&servers[0], &names[7]);
    ask(
        &servers[0],
        &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to],
    );
    ask(&servers[0], &["DEL", &names[7]]);
    only_one_is_lost(&guards, 7).await;
}

/// C64.
#[apply(async_test!)]
async fn a_key_that_is_not_allowed_any_more_loses_its_lock_and_no_other_of_its_batch() {
    let servers = servers(1);
    let user = ["ACL", "SETUSER", "u", "on", ">p", "~lock:*", "+@all"];
    ask(&servers[0], &user);
    let url = servers[0].url().replace("redis://", "redis://u:p@");
    let locks = Redlock::builder().nodes([node(url)]).prefix("lock:");
    let locks = locks.node_timeout(NODE_TIMEOUT / 2).build().unwrap();
    let names: Vec<_> = ('a'..='z').map(String::from).collect();
    let guards = held(&locks, &names).await;
    let rule = ["ACL", "SETUSER", "u", "resetkeys", "~lock:[a-y]*"];
    ask(&servers[0], &rule);
    only_one_is_lost(&guards, 25).await;
}

/// Two servers behind a proxy that looks at the first key of a command alone.
#[derive(Debug)]
struct Sharded([Node; 2]);

#[async_trait]
impl RedisNode for Sharded {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let last = command.operation().key().last().copied();
        let shard = usize::from(last.unwrap_or_default()) % 2;
        self.0[shard].execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0[0].subscribe(channel).await
    }

    fn label(&self) -> &str {
        "proxy"
    }
}

fn behind_a_proxy(servers: &[RedisServer], one_key_per_command: bool) -> Redlock<Sharded> {
    let shards = [&servers[0], &servers[1]].map(|server| node(server.url()));
    Redlock::builder()
        .nodes([Sharded(shards)])
        .node_timeout(NODE_TIMEOUT / 2)
        .one_key_per_command(one_key_per_command)
        .build()
        .unwrap()
}

/// Returns whether all that is said of several keys holds behind the proxy.
async fn works_behind_a_proxy(one_key_per_command: bool) -> bool {
    let servers = servers(2);
    let locks = behind_a_proxy(&servers, one_key_per_command);
    let rival = behind_a_proxy(&servers, one_key_per_command);
    let both = locks.lock(LockRequest::many(["a", "b"])).await.unwrap();
    let is_exclusive = rival.try_lock("b").await.unwrap().is_none();
    both.release().await.ok();
    let names: Vec<_> = (0..10).map(|number| format!("k{number}")).collect();
    let guards = held(&locks, &names).await;
    sleep(3_000 * MS).await;
    is_exclusive && guards.iter().all(LockGuard::is_valid)
}

/// C59.
#[apply(async_test!)]
async fn one_key_per_command_is_safe_behind_servers_that_share_the_keys() {
    let (with, without) = join(works_behind_a_proxy(true), works_behind_a_proxy(false)).await;
    assert!(with);
    assert!(!without, "the proxy proves nothing");
}
