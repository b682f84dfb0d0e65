//! A server that is the wrong one, and says so while the connection to it is in order.

use std::net::TcpListener;
use std::time::Duration;

use lock_core::{DistributedLockExt, RedisNode, Redlock};
use lock_testkit::RedisServer;

use crate::backend::node;
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
