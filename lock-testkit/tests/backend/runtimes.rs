//! A node outlives the tokio runtimes that it is used on.

use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};

use crate::backend::{NEEDS_TIMERS, Node, TASKS, node};
use crate::support::*;

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_node_works_on_one_runtime_after_the_other() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    for _ in 0..3 {
        for runtime in [current_thread(), multi_thread()] {
            let reply = runtime.block_on(node.execute(&release("k", token()), LONG));
            assert_eq!(reply.unwrap(), Reply::Int(0));
        }
    }
}

#[test]
fn a_connect_that_ends_with_its_runtime_does_not_keep_the_next_from_connecting() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url()).connect_timeout(LONG);
    server.pause().unwrap();
    let runtime = current_thread();
    let command = acquire("k", token());
    let error = runtime.block_on(node.execute(&command, SHORT)).unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    drop(runtime);
    server.resume().unwrap();
    current_thread().block_on(until_answered(&node));
    assert_eq!(keys(&server), 0);
}

/// Starts a call when it is dropped.
struct CallAtTheEnd(Node);

impl Drop for CallAtTheEnd {
    fn drop(&mut self) {
        let command = acquire("k", token());
        let answer = self.0.execute(&command, LONG).now_or_never();
        assert!(!matches!(answer, Some(Ok(_))), "{answer:?}");
    }
}

#[test]
fn a_call_that_is_made_while_its_runtime_ends_does_not_hang() {
    let server = RedisServer::start().unwrap();
    let url = server.url();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for runtime in [current_thread(), multi_thread()] {
            let call = CallAtTheEnd(node(url.as_str()));
            runtime.block_on(async {
                tokio::spawn(async move {
                    let _call = call;
                    std::future::pending::<()>().await
                });
                tokio::task::yield_now().await;
            });
            drop(runtime);
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).unwrap();
}

#[test]
fn a_call_in_flight_when_the_runtime_of_its_connection_ends_gets_an_error() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    let first = current_thread();
    first.block_on(until_answered(&node));
    server.pause().unwrap();
    multi_thread().block_on(async {
        let command = acquire("k", token());
        let mut call = Box::pin(node.execute(&command, LONG));
        assert!(futures::poll!(&mut call).is_pending());
        first.shutdown_background();
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::Connection, "{error}");
        server.resume().unwrap();
        until_answered(&node).await;
    });
}

#[test]
fn a_runtime_that_is_kept_but_not_run_holds_nobody_up() {
    let server = RedisServer::start().unwrap();
    // First with a connection on it, then with a connect on it that never ends.
    let idle = current_thread();
    let connected = node(server.url());
    idle.block_on(until_answered(&connected));
    current_thread().block_on(until_answered(&connected));

    let node = node(server.url()).connect_timeout(SHORT);
    idle.block_on(async {
        let command = acquire("k", token());
        let mut call = Box::pin(node.execute(&command, LONG));
        assert!(futures::poll!(&mut call).is_pending());
    });
    current_thread().block_on(until_answered(&node));
    assert_eq!(keys(&server), 0);
}

#[test]
fn two_runtimes_share_a_connection() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    let (a, b) = (multi_thread(), multi_thread());
    for _ in 0..20 {
        for runtime in [&a, &b] {
            let reply = runtime.block_on(node.execute(&release("k", token()), LONG));
            assert_eq!(reply.unwrap(), Reply::Int(0));
        }
    }
    server.pause().unwrap();
    for runtime in [&a, &b] {
        let error = runtime.block_on(node.execute(&release("k", token()), SHORT));
        assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    }
    server.resume().unwrap();
}

#[test]
fn a_runtime_without_timers_or_io_gives_an_error_if_the_client_needs_them_and_no_panic() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    let without_timers = Builder::new_current_thread().enable_io().build().unwrap();
    let without_io = Builder::new_current_thread().enable_time().build().unwrap();
    for (runtime, works) in [(without_io, false), (without_timers, !NEEDS_TIMERS)] {
        if works {
            runtime.block_on(until_answered(&node));
            server.pause().unwrap();
        }
        let command = release("k", token());
        let error = runtime.block_on(node.execute(&command, 10 * SHORT)).unwrap_err();
        if works {
            assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
            server.resume().unwrap();
        } else {
            assert_eq!(error.kind(), NodeErrorKind::NotSent);
            assert!(error.to_string().contains("enabled"), "{error}");
        }
    }
    current_thread().block_on(until_answered(&node));
}

#[tokio::test]
async fn a_dropped_node_leaves_no_task_behind_and_hangs_do_not_pile_them_up() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    until_answered(&node).await;
    for _ in 0..8 {
        server.pause().unwrap();
        for _ in 0..4 {
            let error = node.execute(&acquire("k", token()), SHORT / 5).await;
            assert!(error.is_err());
        }
        server.resume().unwrap();
        until_answered(&node).await;
        // The connection, and at most four replaced ones.
        assert!(tasks() <= 5 * TASKS, "{}", tasks());
    }
    drop(node);
    eventually("no task", || tasks() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_in_paused_time() {
    let server = FakeServer::start(|_, _| Act::Silence);
    let hour = Duration::from_secs(3600);
    let node = node(server.url()).connect_timeout(hour);
    let error = node.execute(&acquire("k", token()), hour).await;
    assert!(error.is_err());
}

#[test]
fn a_call_in_the_context_of_a_runtime_that_has_ended_gets_an_error_and_does_not_hang() {
    let server = RedisServer::start().unwrap();
    for is_connected in [false, true] {
        let node = node(server.url());
        let runtime = multi_thread();
        if is_connected {
            runtime.block_on(until_answered(&node));
        }
        let handle = runtime.handle().clone();
        drop(runtime);
        let (sender, answer) = std::sync::mpsc::channel();
        // On a thread of its own, so that a call that hangs fails the test.
        std::thread::spawn(move || {
            // As a call that is polled while the runtime shuts down: tasks are dropped when they
            // are spawned.
            let _context = handle.enter();
            let result = block_on(node.execute(&acquire("k", token()), LONG));
            sender.send((result, node)).unwrap();
        });
        let (result, node) = answer.recv_timeout(2 * LONG).unwrap();
        assert_eq!(result.unwrap_err().kind(), NodeErrorKind::NotSent);
        current_thread().block_on(until_answered(&node));
        assert_eq!(keys(&server), 0);
    }
}
