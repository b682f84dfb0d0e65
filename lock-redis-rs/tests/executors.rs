//! With smol, a node works from any executor, and beside tokio too.

#![cfg(feature = "smol")]
// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::node::NodeErrorKind;
use lock_core::runtime::ThreadRuntime;
use lock_core::{DistributedLockExt, RedisNode, Redlock, Reply};
use lock_redis_rs::RedisRsNode;
use support::*;

/// Waits for a future on the thread that calls.
type BlockOn = fn(Pin<Box<dyn Future<Output = ()> + '_>>);

/// Executors that know nothing of Redis, sockets or each other.
const EXECUTORS: [BlockOn; 4] = [
    |future| ThreadRuntime::shared().block_on(future).unwrap(),
    |future| futures::executor::block_on(future),
    |future| smol::block_on(future),
    |future| smol::block_on(smol::LocalExecutor::new().run(future)),
];

/// How many connections there are, without the one that asks.
fn connections(server: &RedisServer) -> usize {
    match server.command(&["CLIENT", "LIST"]).unwrap() {
        Reply::Bytes(list) => String::from_utf8(list).unwrap().lines().count() - 1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_works_from_one_executor_after_the_other_over_one_connection() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    for block_on in EXECUTORS.repeat(3) {
        block_on(Box::pin(async {
            let reply = node.execute(&release("k", token()), LONG).await;
            assert_eq!(reply.unwrap(), Reply::Int(0));
        }));
        assert_eq!(connections(&server), 1);
    }
}

#[test]
fn a_deadline_is_kept_from_any_executor_and_the_node_comes_back() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    for block_on in EXECUTORS {
        block_on(Box::pin(async {
            until_answered(&node).await;
            server.pause().unwrap();
            for _ in 0..4 {
                let error = node.execute(&acquire("k", token()), SHORT).await;
                assert!(error.is_err());
            }
            server.resume().unwrap();
            until_answered(&node).await;
            server.restart().unwrap();
            until_answered(&node).await;
        }));
    }
}

#[test]
fn calls_of_many_threads_all_end_in_time() {
    const THREADS: usize = 16;
    let server = RedisServer::start().unwrap();
    let node = Arc::new(RedisRsNode::new(server.url()).unwrap());
    futures::executor::block_on(until_answered(&*node));
    server.pause().unwrap();
    let (sender, answers) = std::sync::mpsc::channel();
    for _ in 0..THREADS {
        let (node, sender) = (Arc::clone(&node), sender.clone());
        // On threads of their own, so that a call that hangs fails the test.
        std::thread::spawn(move || {
            let command = release("k", token());
            let result = futures::executor::block_on(node.execute(&command, SHORT));
            sender.send(result.unwrap_err().kind()).unwrap();
        });
    }
    for _ in 0..THREADS {
        let kind = answers.recv_timeout(LONG).unwrap();
        assert_eq!(kind, NodeErrorKind::NoAnswer);
    }
    server.resume().unwrap();
}

#[test]
fn a_lock_is_taken_and_released_on_plain_threads() {
    let servers: [_; 3] = std::array::from_fn(|_| RedisServer::start().unwrap());
    let nodes = servers.each_ref().map(RedisServer::url);
    let nodes = nodes.map(|url| RedisRsNode::new(url).unwrap());
    let locks = Redlock::builder().nodes(nodes).node_timeout(10 * SHORT);
    let locks = locks.build().unwrap();
    let runtime = ThreadRuntime::shared();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = runtime.block_on(locks.lock("k")).unwrap().unwrap();
                    assert!(guard.is_valid());
                    runtime.block_on(guard.release()).unwrap().unwrap();
                }
            });
        }
    });
    // One that is dropped is released in the background.
    drop(runtime.block_on(locks.lock("k")).unwrap());
    let released = || servers.iter().all(|server| keys(server) == 0);
    futures::executor::block_on(eventually("released", released));
}

#[test]
fn a_dropped_node_closes_its_connection_and_hangs_do_not_pile_them_up() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    futures::executor::block_on(async {
        until_answered(&node).await;
        for _ in 0..12 {
            server.pause().unwrap();
            for _ in 0..4 {
                let error = node.execute(&acquire("k", token()), SHORT / 5).await;
                assert!(error.is_err());
            }
            server.resume().unwrap();
            until_answered(&node).await;
            // The one in use, at most four replaced ones, and some whose end takes a while.
            let open = connections(&server);
            assert!(open <= 8, "{open}");
        }
        drop(node);
        eventually("no connection", || connections(&server) == 0).await;
    });
}

#[test]
fn a_borrowed_connection_keeps_its_own_timeout_on_a_plain_thread() {
    let server = RedisServer::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection();
    let mut connection = futures::executor::block_on(connection).unwrap();
    connection.set_response_timeout(SHORT);
    let node = RedisRsNode::from_connection("mine", connection);
    futures::executor::block_on(until_answered(&node));
    server.pause().unwrap();
    let error = futures::executor::block_on(node.execute(&acquire("k", token()), LONG));
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    server.resume().unwrap();
}

#[cfg(feature = "tokio")]
mod beside_tokio {
    use futures::executor::block_on;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn current_thread() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn multi_thread() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    }

    async fn ask(node: &RedisRsNode) {
        let reply = node.execute(&release("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::Int(0));
    }

    #[test]
    fn a_node_works_on_tokio_and_elsewhere_in_turns_whichever_was_first() {
        let server = RedisServer::start().unwrap();
        for tokio_is_first in [true, false] {
            let node = RedisRsNode::new(server.url()).unwrap();
            if tokio_is_first {
                current_thread().block_on(ask(&node));
            }
            for executor in EXECUTORS {
                executor(Box::pin(ask(&node)));
                multi_thread().block_on(ask(&node));
                current_thread().block_on(ask(&node));
            }
        }
    }

    #[test]
    fn tokio_and_others_share_a_connection_while_both_are_there() {
        let server = RedisServer::start().unwrap();
        let runtime = multi_thread();
        for tokio_is_first in [true, false] {
            let node = RedisRsNode::new(server.url()).unwrap();
            if tokio_is_first {
                runtime.block_on(ask(&node));
            }
            for executor in EXECUTORS {
                executor(Box::pin(ask(&node)));
                runtime.block_on(ask(&node));
                assert_eq!(connections(&server), 1);
            }
            // Each keeps the deadlines of its own calls.
            server.pause().unwrap();
            let command = release("k", token());
            let error = runtime.block_on(node.execute(&command, SHORT));
            assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
            let error = block_on(node.execute(&command, SHORT));
            assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
            server.resume().unwrap();
            block_on(ask(&node));
            drop(node);
            block_on(eventually("closed", || connections(&server) == 0));
        }
    }

    #[test]
    fn a_connection_belongs_to_the_runtime_that_opened_it() {
        let server = RedisServer::start().unwrap();
        let node = RedisRsNode::new(server.url()).unwrap();
        let runtime = multi_thread();
        let tasks = runtime.metrics();
        block_on(ask(&node));
        assert_eq!(tasks.num_alive_tasks(), 0);
        runtime.block_on(ask(&node));
        assert_eq!(tasks.num_alive_tasks(), 0);
        // It is no harm to the connection when that runtime ends.
        drop(runtime);
        block_on(ask(&node));
        assert_eq!(connections(&server), 1);
    }

    #[test]
    fn a_call_from_elsewhere_in_flight_when_the_runtime_ends_gets_an_error_and_the_node_works_on() {
        let server = RedisServer::start().unwrap();
        let node = RedisRsNode::new(server.url()).unwrap();
        let runtime = multi_thread();
        runtime.block_on(ask(&node));
        server.pause().unwrap();
        block_on(async {
            let command = acquire("k", token());
            let mut call = Box::pin(node.execute(&command, LONG));
            assert!(futures::poll!(&mut call).is_pending());
            runtime.shutdown_background();
            let error = call.await.unwrap_err();
            assert_eq!(error.kind(), NodeErrorKind::Connection, "{error}");
            server.resume().unwrap();
            until_answered(&node).await;
        });
    }

    #[test]
    fn a_runtime_without_io_gets_an_error_and_takes_nothing_from_others() {
        let server = RedisServer::start().unwrap();
        let without_io = Builder::new_current_thread().enable_time().build().unwrap();
        let node = RedisRsNode::new(server.url()).unwrap();
        let command = acquire("k", token());
        let error = without_io
            .block_on(node.execute(&command, LONG))
            .unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        assert!(error.to_string().contains("enabled"), "{error}");
        block_on(until_answered(&node));
    }

    #[test]
    fn a_borrowed_connection_works_on_both() {
        let server = RedisServer::start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let runtime = multi_thread();
        // redis-rs gives it a response timeout.
        let connection = runtime.block_on(client.get_multiplexed_async_connection());
        let node = RedisRsNode::from_connection("mine", connection.unwrap());
        for _ in 0..3 {
            runtime.block_on(ask(&node));
            block_on(ask(&node));
        }
    }
}
