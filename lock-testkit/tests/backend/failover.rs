//! A server that is the wrong one, and says so while the connection to it is in order.

use std::net::TcpListener;
use std::time::Duration;

use lock_core::{DistributedLockExt, ExtendError, LockRequest, Loss, RedisNode, Redlock, Reply};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
use crate::support::*;

/// A primary and its replica, and where clients find the primary.
fn pair() -> (RedisServer, RedisServer, Forwarder) {
    let server = || {
        let builder = RedisServer::builder().arg("--repl-diskless-sync-delay", "0");
        builder.start().unwrap()
    };
    let (primary, replica) = (server(), server());
    follow(&replica, &primary);
    let forwarder = Forwarder::start(primary.addr());
    (primary, replica, forwarder)
}

fn follow(replica: &RedisServer, primary: &RedisServer) {
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
}

/// C38b.
#[apply(async_test!)]
async fn a_node_follows_its_name_to_another_server_when_the_old_one_became_read_only() {
    let (primary, replica, forwarder) = pair();
    let node = node(forwarder.url());
    until_answered(&node).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    follow(&primary, &replica);
    // Nobody is told where the primary is now.
    let error = node
        .execute(&acquire("a", token()), LONG)
        .await
        .unwrap_err();
    assert!(
        matches!(error.code(), Some("READONLY" | "LOADING")),
        "{error}"
    );
    forwarder.lead_to(replica.addr());
    let mut answered = false;
    for _ in 0..100 {
        answered = node.execute(&acquire("b", token()), LONG).await.is_ok();
        if answered {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(answered);
    assert_eq!(calls(&replica, "set"), 1);
}

/// C68.
#[apply(async_test!)]
async fn all_nodes_of_one_name_reach_the_same_of_its_servers() {
    let server = FakeServer::start(|_, _| Act::Answer(":0\r\n"));
    // Where `localhost` has two addresses, there is another server behind the second one.
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let other = TcpListener::bind(format!("[::1]:{port}"));
    for _ in 0..20 {
        until_answered(&node(format!("redis://localhost:{port}"))).await;
    }
    if let Ok(other) = other {
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "some reach the other server");
    }
}

#[apply(async_test!)]
async fn a_release_that_a_replica_refused_is_owed_until_a_primary_takes_it() {
    let (primary, replica, forwarder) = pair();
    let locks = Redlock::builder().nodes([node(forwarder.url())]);
    let locks = locks.node_timeout(LONG / 4).ttl(TTL).build().unwrap();
    let guard = locks.lock("k").await.unwrap();
    eventually("a copy", || keys(&replica) == 1).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    follow(&primary, &replica);
    guard.release().await.unwrap_err();
    assert_eq!(keys(&replica), 1);
    forwarder.lead_to(replica.addr());
    eventually("no key", || keys(&replica) == 0).await;
}

/// C38b.
#[apply(async_test!)]
async fn a_lock_goes_on_where_its_endpoint_leads_or_is_told_to_be_lost() {
    let (primary, replica, forwarder) = pair();
    let locks = Redlock::builder().nodes([node(forwarder.url())]);
    let locks = locks.node_timeout(LONG / 20).build().unwrap();
    let ttl = Duration::from_millis(1500);
    let request = LockRequest::new("k").ttl(ttl).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    eventually("a copy", || keys(&replica) == 1).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    follow(&primary, &replica);
    forwarder.lead_to(replica.addr());
    let other = LockRequest::new("other").ttl(TTL).max_wait(LONG);
    let other = locks.lock(other).await.unwrap();
    assert!(keys(&replica) > 0, "it is at the new primary");
    sleep(2 * ttl).await;
    let holder = replica.command(&["GET", "k"]).unwrap();
    match guard.is_valid() {
        true => assert_eq!(holder, Reply::Bytes(guard.token().into())),
        // On a busy machine there was no time left.
        false => {
            timeout(LONG, guard.lost()).await.unwrap();
            assert_eq!(holder, Reply::Nil);
        }
    }
    other.release().await.unwrap();
}

#[apply(async_test!)]
async fn where_a_replica_is_required_an_old_primary_takes_no_locks_nor_does_the_new_one_without() {
    let (primary, replica, _) = pair();
    let need = ["CONFIG", "SET", "min-replicas-to-write", "1"];
    for server in [&primary, &replica] {
        server.command(&need).unwrap();
    }
    let nodes = [node(primary.url()), node(replica.url())];
    eventually("a replica", || {
        primary.command(&["SET", "first", ""]).is_ok()
    })
    .await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    eventually("it has left", || {
        primary.command(&["SET", "second", ""]).is_err()
    })
    .await;
    for node in &nodes {
        let refused = node.execute(&acquire("k", token()), LONG).await;
        assert_eq!(refused.unwrap_err().code(), Some("NOREPLICAS"));
    }
    follow(&primary, &replica);
    eventually("a replica again", || {
        replica.command(&["SET", "third", ""]).is_ok()
    })
    .await;
    let granted = nodes[1].execute(&acquire("k", token()), LONG).await;
    assert_eq!(granted.unwrap(), Reply::ok());
}

/// Locks on the endpoint and on these servers.
fn locks(endpoint: &Forwarder, others: &[RedisServer]) -> Redlock<Node> {
    let nodes = others.iter().map(|server| node(server.url()));
    let nodes = nodes.chain([node(endpoint.url())]);
    let builder = Redlock::builder().nodes(nodes).node_timeout(LONG / 20);
    builder.build().unwrap()
}

/// C37.
#[apply(async_test!)]
async fn a_replica_that_lacks_the_key_is_outvoted_and_where_it_is_alone_the_lock_is_lost() {
    for others in [2, 0] {
        let (primary, replica, endpoint) = pair();
        let others = RedisServer::start_many(others).unwrap();
        let [a, b] = [&others, &others].map(|others| locks(&endpoint, others));
        replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
        let request = LockRequest::new("k").ttl(TTL).max_wait(LONG);
        let guard = a.lock(request.clone()).await.unwrap();
        let nodes = guard.votes().nodes;
        eventually("granted everywhere", || guard.votes().granted == nodes).await;
        primary.kill().unwrap();
        endpoint.lead_to(replica.addr());
        if others.is_empty() {
            let taken = b.lock(request).await.unwrap();
            let mut extended = guard.extend(TTL).await;
            // It connects again first.
            while matches!(extended, Err(ExtendError::Unavailable { .. })) {
                extended = guard.extend(TTL).await;
            }
            assert!(matches!(extended, Err(ExtendError::Lost)), "{extended:?}");
            assert_eq!(guard.lost().await, Loss::Revoked);
            assert!(taken.is_valid());
        } else {
            for _ in 0..20 {
                assert!(b.try_lock("k").await.unwrap().is_none());
            }
            guard.extend(TTL).await.unwrap();
        }
    }
}
