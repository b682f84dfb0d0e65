//! A node over a connection that its user has already.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use lock_core::node::NodeErrorKind;
use lock_core::{DistributedLockExt, RedisNode, Redlock, Reply};
use lock_redis_rs::RedisRsNode;
use redis::aio::MultiplexedConnection;
use support::*;

async fn connection(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    // By default it has 500 ms, which a busy machine may need.
    connection.set_response_timeout(LONG);
    connection
}

#[apply(async_test!)]
async fn a_borrowed_connection_locks_and_unlocks() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::from_connection("mine", connection(&server).await);
    assert_eq!(node.label(), "mine");
    let mine = token();
    let granted = node.execute(&acquire("k", mine), LONG).await.unwrap();
    assert_eq!(granted, Reply::ok());
    let refused = node.execute(&acquire("k", token()), LONG).await.unwrap();
    assert_eq!(refused, Reply::Nil);
    let released = node.execute(&release("k", mine), LONG).await.unwrap();
    assert_eq!(released, Reply::Int(1));
}

#[apply(async_test!)]
async fn a_borrowed_connection_answers_in_time_and_by_its_own_timeout_if_that_is_shorter() {
    let server = RedisServer::start().unwrap();
    let mut connection = connection(&server).await;
    server.pause().unwrap();
    let node = RedisRsNode::from_connection("mine", connection.clone());
    let error = node.execute(&acquire("k", token()), SHORT).await;
    assert_eq!(error.unwrap_err().to_string(), "no answer in 100 ms");

    connection.set_response_timeout(SHORT);
    let node = RedisRsNode::from_connection("mine", connection);
    let error = node.execute(&acquire("k", token()), LONG).await;
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    server.resume().unwrap();
}

#[apply(async_test!)]
async fn a_borrowed_connection_manager_comes_back_by_itself_and_sends_nothing_late() {
    let server = RedisServer::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let manager = client.get_connection_manager().await.unwrap();
    let node = RedisRsNode::from_connection("mine", manager);
    until_answered(&node).await;
    server.kill().unwrap();
    for n in 0..5 {
        let error = node
            .execute(&acquire(format!("k{n}"), token()), SHORT)
            .await;
        assert!(error.is_err());
    }
    server.restart().unwrap();
    until_answered(&node).await;
    assert_eq!(keys(&server), 0);
}

#[apply(async_test!)]
async fn errors_of_a_borrowed_connection_keep_code_and_cause() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::from_connection("mine", connection(&server).await);
    server
        .command(&["CONFIG", "SET", "maxmemory", "1"])
        .unwrap();
    let error = node.execute(&acquire("k", token()), LONG).await;
    assert_eq!(error.unwrap_err().code(), Some("OOM"));
    server.kill().unwrap();
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::Connection);
    assert!(std::error::Error::source(&error).is_some());
}

#[cfg(all(feature = "tokio", not(feature = "smol")))]
#[test]
fn a_borrowed_connection_outside_of_tokio_is_an_error_and_no_panic() {
    let server = RedisServer::start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connection = runtime.block_on(connection(&server));
    let node = RedisRsNode::from_connection("mine", connection);
    let error = futures::executor::block_on(node.execute(&acquire("k", token()), LONG));
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
}

#[apply(async_test!)]
async fn a_lock_may_mix_ways_to_connect() {
    let servers = RedisServer::start_many(3).unwrap();
    let resp3 = format!("{}?protocol=resp3", servers[2].url());
    let nodes: [Arc<dyn RedisNode>; 3] = [
        Arc::new(RedisRsNode::from_connection(
            servers[0].addr().to_string(),
            connection(&servers[0]).await,
        )),
        Arc::new(RedisRsNode::new(servers[1].url()).unwrap()),
        Arc::new(RedisRsNode::new(resp3).unwrap()),
    ];
    let locks = Redlock::builder().nodes(nodes).node_timeout(10 * SHORT);
    let locks = locks.build().unwrap();
    let guard = locks.lock("k").await.unwrap();
    assert!(locks.try_lock("k").await.unwrap().is_none());
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    eventually("released", || servers.iter().map(keys).sum::<i64>() == 0).await;
}
