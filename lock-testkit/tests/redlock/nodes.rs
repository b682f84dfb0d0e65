//! What nodes are given to a lock: some that cannot be used, too few, one server twice.

use std::net::TcpListener;

use lock_core::{AcquireError, DistributedLockExt, LockRequest, Redlock};
use lock_testkit::{FaultProxy, ProxyFault, RedisServer};

use super::support::*;
use crate::backend::{Node, node};

fn locks_of(nodes: impl IntoIterator<Item = Node>) -> Redlock<Node> {
    let builder = Redlock::builder().nodes(nodes).node_timeout(NODE_TIMEOUT);
    builder.build().unwrap()
}

fn proxies(servers: &[RedisServer]) -> Vec<FaultProxy> {
    let proxy = |server: &RedisServer| FaultProxy::start(server.addr()).unwrap();
    servers.iter().map(proxy).collect()
}

fn through(proxies: &[FaultProxy]) -> Redlock<Node> {
    locks_of(
        proxies
            .iter()
            .map(|proxy| node(format!("redis://{}", proxy.addr()))),
    )
}

/// C09, C33.
#[apply(async_test!)]
async fn a_node_that_cannot_be_used_costs_no_lock_and_its_cause_is_told() {
    // Connections to it are established, and nobody ever takes them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let closed = format!("redis://{}", closed.unwrap());
    let unknown = "redis://nope.invalid:6379".to_owned();
    for (url, cause) in [(silent, "handshake"), (closed, "refused"), (unknown, "")] {
        let servers = servers(2);
        let nodes = servers.iter().map(|server| node(server.url()));
        let bad = node(url.clone()).connect_timeout(100 * MS);
        let locks = locks_of(nodes.chain([bad]));
        for _ in 0..3 {
            let guard = locks.lock(KEY).await.unwrap();
            guard.extend(60_000 * MS).await.unwrap();
            guard.release().await.unwrap();
        }
        servers[1].kill().unwrap();
        let started = std::time::Instant::now();
        loop {
            let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
                panic!("one node of three is no quorum");
            };
            // While it is being connected to, no cause is known.
            if outage.to_string().contains(cause) {
                break;
            }
            assert!(started.elapsed() < LONG, "{url}: {outage}");
            sleep(20 * MS).await;
        }
    }
}

/// C49.
#[apply(async_test!)]
async fn a_quorum_is_of_all_nodes_and_not_of_those_that_can_be_reached() {
    let servers = servers(5);
    let proxies = proxies(&servers);
    for proxy in &proxies[3..] {
        proxy.set_fault(ProxyFault::Refuse);
    }
    // These two see different nodes.
    let (locks, all_seeing) = (through(&proxies), warm_locks(&servers).await);
    let request = LockRequest::new(KEY).ttl(60_000 * MS).max_wait(LONG);
    let guard = locks.lock(request).await.unwrap();
    until("granted by three", LONG, || guard.votes().granted == 3).await;
    assert!(all_seeing.try_lock(KEY).await.unwrap().is_none());
    guard.release().await.unwrap();
    until("released", LONG, || keys(&servers) == 0).await;

    proxies[2].set_fault(ProxyFault::Refuse);
    let alone = locks.try_lock(KEY).await;
    assert!(
        matches!(alone, Err(AcquireError::Unavailable(_))),
        "two of two reachable ones: {alone:?}"
    );
    let guard = all_seeing.lock(KEY).await.unwrap();
    guard.release().await.unwrap();
}

/// C49.
#[apply(async_test!)]
async fn one_server_under_two_names_votes_once_and_both_names_are_told() {
    let servers = servers(2);
    let another_name = FaultProxy::start(servers[0].addr()).unwrap();
    let urls = [
        servers[0].url(),
        format!("redis://{}", another_name.addr()),
        servers[1].url(),
    ];
    let locks = locks_of(urls.map(node));
    for _ in 0..10 {
        let guard = locks.lock(KEY).await.unwrap();
        sleep(20 * MS).await;
        guard.release().await.unwrap();
        until("released", LONG, || keys(&servers) == 0).await;
    }
    servers[1].kill().unwrap();
    let request = LockRequest::new(KEY).max_wait(50 * MS);
    let Err(AcquireError::Unavailable(outage)) = locks.lock(request).await else {
        panic!("one server is no majority of three nodes");
    };
    let shown = outage.to_string();
    assert!(shown.contains("it is the same server as"), "{shown}");
    for name in [servers[0].addr(), another_name.addr()] {
        assert!(shown.contains(&name.to_string()), "{shown}");
    }
}

/// C35.
#[apply(async_test!)]
async fn an_acquire_whose_reply_was_lost_is_never_kept_out_by_its_own_key() {
    for count in [1, 3] {
        let servers = servers(count);
        let proxies = proxies(&servers);
        let locks = through(&proxies);
        locks.lock(KEY).await.unwrap().release().await.unwrap();
        let lose_replies = || {
            for proxy in &proxies {
                proxy.set_fault(ProxyFault::CutBeforeReply);
            }
        };
        for _ in 0..3 {
            lose_replies();
            let request = LockRequest::new(KEY).ttl(60_000 * MS);
            match locks.try_lock(request.clone()).await {
                Ok(Some(guard)) => drop(guard),
                Err(AcquireError::Unavailable(_)) => {}
                other => panic!("{other:?}"),
            }
            until("no key is left", LONG, || keys(&servers) == 0).await;
            lose_replies();
            let guard = locks.lock(request.max_wait(LONG)).await.unwrap();
            assert!(guard.is_valid());
            drop(guard);
            until("released", LONG, || keys(&servers) == 0).await;
        }
    }
}
