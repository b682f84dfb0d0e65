//! A node that connects as a bb8 pool of its user's does.

#![cfg(feature = "bb8")]
// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8::{CustomizeConnection, ManageConnection, Pool};
use futures::FutureExt;
use futures::future::BoxFuture;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_redis_rs::RedisRsNode;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError};
use support::*;

fn pool(url: &str, size: u32) -> Pool<Client> {
    let client = Client::open(url).unwrap();
    Pool::builder().max_size(size).build_unchecked(client)
}

/// How many connections of clients the server has.
fn connections(server: &RedisServer) -> usize {
    let Reply::Bytes(list) = server.command(&["CLIENT", "LIST"]).unwrap() else {
        panic!("no list");
    };
    // One of them asked.
    String::from_utf8(list).unwrap().lines().count() - 1
}

async fn locks_and_unlocks(node: &RedisRsNode) {
    let mine = token();
    let granted = node.execute(&acquire("k", mine), LONG).await.unwrap();
    assert_eq!(granted, Reply::ok());
    let refused = node.execute(&acquire("k", token()), LONG).await.unwrap();
    assert_eq!(refused, Reply::Nil);
    let released = node.execute(&release("k", mine), LONG).await.unwrap();
    assert_eq!(released, Reply::Int(1));
}

#[tokio::test]
async fn a_pool_that_is_used_up_holds_up_no_lock_and_is_left_alone() {
    for size in [1, 10] {
        let server = RedisServer::start().unwrap();
        let pool = pool(&server.url(), size);
        let node = RedisRsNode::from_pool("mine", pool.clone());
        assert_eq!(node.label(), "mine");
        let mut all = Vec::new();
        for _ in 0..size {
            all.push(pool.get().await.unwrap());
        }
        let before = pool.state();
        locks_and_unlocks(&node).await;
        let after = pool.state();
        assert_eq!(after.connections, before.connections);
        assert_eq!(after.statistics.get_started, before.statistics.get_started);
        // One of its own, and no more.
        eventually("one connection of its own", || {
            connections(&server) == size as usize + 1
        })
        .await;
        drop(all);
        assert_eq!(pool.state().idle_connections, size);
    }
}

#[cfg(feature = "smol")]
#[test]
fn a_call_from_outside_of_tokio_is_an_error_that_says_so() {
    let server = RedisServer::start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pool = runtime.block_on(async { pool(&server.url(), 1) });
    let node = RedisRsNode::from_pool("mine", pool);
    let command = release("k", token());
    let error = futures::executor::block_on(node.execute(&command, LONG)).unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(
        error.to_string().contains("needs a tokio runtime"),
        "{error}"
    );
    runtime.block_on(async {
        // Behind the pause that follows a failed connect.
        until_answered(&node).await;
        locks_and_unlocks(&node).await;
    });
}

#[tokio::test]
async fn what_the_application_does_on_its_connections_is_nothing_to_the_locks() {
    let server = RedisServer::start().unwrap();
    let pool = pool(&server.url(), 1);
    let node = RedisRsNode::from_pool("mine", pool.clone());
    locks_and_unlocks(&node).await;
    let mut mine = pool.get().await.unwrap();
    for command in ["MULTI", "SELECT"] {
        let mut cmd = redis::cmd(command);
        if command == "SELECT" {
            cmd.arg(5);
        }
        cmd.exec_async(&mut *mine).await.unwrap();
        locks_and_unlocks(&node).await;
    }
    redis::cmd("EXEC").exec_async(&mut *mine).await.unwrap();
    let mut pop = redis::cmd("BLPOP");
    pop.arg("list").arg(0);
    let mut pop = Box::pin(pop.exec_async(&mut *mine));
    assert!(futures::poll!(&mut pop).is_pending());
    locks_and_unlocks(&node).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_named_at_once_and_found_when_it_is_back() {
    let server = RedisServer::start().unwrap();
    // A checkout would take 30 s and then tell of a timeout.
    let node = RedisRsNode::from_pool("mine", pool(&server.url(), 1));
    server.kill().unwrap();
    let start = Instant::now();
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(chain(&error).contains("refused"), "{}", chain(&error));
    server.restart().unwrap();
    until_answered(&node).await;
    locks_and_unlocks(&node).await;
}

#[tokio::test]
async fn redis_rss_own_timeout_does_not_cut_a_call_short() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::from_pool("mine", pool(&server.url(), 1));
    locks_and_unlocks(&node).await;
    server.pause().unwrap();
    let command = acquire("k", token());
    let call = node.execute(&command, LONG);
    // Longer than redis-rs waits by default.
    let resume = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.resume().unwrap();
    };
    let (answer, ()) = tokio::join!(call, resume);
    assert_eq!(answer.unwrap(), Reply::ok());
}

#[test]
fn a_node_works_on_one_runtime_after_the_other_whatever_became_of_the_pools() {
    let server = RedisServer::start().unwrap();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let node = first.block_on(async {
        let node = RedisRsNode::from_pool("mine", pool(&server.url(), 1));
        locks_and_unlocks(&node).await;
        node
    });
    drop(first);
    for _ in 0..3 {
        runtime().block_on(async {
            until_answered(&node).await;
            locks_and_unlocks(&node).await;
        });
    }
    // Outside of any.
    let answer = futures::executor::block_on(node.execute(&acquire("k", token()), LONG));
    assert_eq!(answer.unwrap_err().kind(), NodeErrorKind::NotSent);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_nobody_called_is_replaced() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::from_pool("mine", pool(&server.url(), 1));
    locks_and_unlocks(&node).await;
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
    // Who calls at once may learn of it by an error.
    until_answered(&node).await;
    locks_and_unlocks(&node).await;
    eventually("one connection", || connections(&server) == 1).await;
}

/// A manager of the application's own.
struct Custom {
    client: Client,
    connects: Arc<AtomicUsize>,
    way: Connect,
}

#[derive(Clone, Copy)]
enum Connect {
    Works,
    Hangs,
    Fails,
}

#[derive(Debug, thiserror::Error)]
enum CustomError {
    #[error("no credentials in the vault")]
    Vault,
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl ManageConnection for Custom {
    type Connection = MultiplexedConnection;
    type Error = CustomError;

    async fn connect(&self) -> Result<MultiplexedConnection, CustomError> {
        self.connects.fetch_add(1, Ordering::SeqCst);
        match self.way {
            Connect::Works => Ok(self.client.get_multiplexed_async_connection().await?),
            Connect::Hangs => pending().await,
            Connect::Fails => Err(CustomError::Vault),
        }
    }

    async fn is_valid(&self, _: &mut MultiplexedConnection) -> Result<(), CustomError> {
        Ok(())
    }

    fn has_broken(&self, _: &mut MultiplexedConnection) -> bool {
        false
    }
}

fn custom(server: &RedisServer, way: Connect) -> (RedisRsNode, Arc<AtomicUsize>) {
    let connects = Arc::new(AtomicUsize::new(0));
    let manager = Custom {
        client: Client::open(server.url()).unwrap(),
        connects: Arc::clone(&connects),
        way,
    };
    let pool = Pool::builder().build_unchecked(manager);
    (RedisRsNode::from_pool("mine", pool), connects)
}

#[tokio::test]
async fn first_calls_share_one_connect() {
    let server = RedisServer::start().unwrap();
    let (node, connects) = custom(&server, Connect::Works);
    let commands: Vec<_> = (0..20).map(|n| acquire(format!("k{n}"), token())).collect();
    let calls = commands.iter().map(|command| node.execute(command, LONG));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), Reply::ok());
    }
    assert_eq!(connects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connect_that_hangs_takes_no_longer_than_the_call_may_and_ends_by_itself() {
    let server = RedisServer::start().unwrap();
    let (node, connects) = custom(&server, Connect::Hangs);
    let node = node.connect_timeout(10 * SHORT);
    let error = node.execute(&acquire("k", token()), SHORT).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "still connecting");
    let error = node.execute(&acquire("k", token()), LONG).await;
    assert_eq!(
        chain(&error.unwrap_err()),
        "cannot connect: the pool's manager had no connection ready in 1s"
    );
    assert_eq!(connects.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_managers_own_error_is_the_cause_and_is_told_again_during_the_pause() {
    let server = RedisServer::start().unwrap();
    let (node, connects) = custom(&server, Connect::Fails);
    for _ in 0..1000 {
        let error = node.execute(&acquire("k", token()), LONG).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        assert_eq!(chain(&error), "cannot connect: no credentials in the vault");
    }
    // There is a pause after each.
    assert!(connects.load(Ordering::SeqCst) < 1000);
}

/// Sends a command on every new connection.
#[derive(Debug)]
struct Customizer(&'static str);

impl CustomizeConnection<MultiplexedConnection, RedisError> for Customizer {
    fn on_acquire<'a>(
        &'a self,
        connection: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, Result<(), RedisError>> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(self.0).arg(0);
        async move { eval.exec_async(connection).await }.boxed()
    }
}

#[tokio::test]
async fn the_pools_customizer_sees_the_connection_and_its_error_keeps_the_servers_code() {
    let server = RedisServer::start().unwrap();
    let customized = |script| {
        let pool = Pool::builder()
            .connection_customizer(Box::new(Customizer(script)))
            .build_unchecked(Client::open(server.url()).unwrap());
        RedisRsNode::from_pool("mine", pool)
    };
    locks_and_unlocks(&customized("return redis.call('INCR', 'customized')")).await;
    let count = server.command(&["GET", "customized"]).unwrap();
    assert_eq!(count, Reply::Bytes(b"1".to_vec()));

    let node = customized("return redis.error_reply('MISCONF no disk')");
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(chain(&error), "cannot connect: MISCONF no disk");
}
