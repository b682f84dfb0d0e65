//! The connection is opened when it is needed, comes back by itself, and keeps nobody waiting.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_redis_rs::RedisRsNode;
use support::*;

#[apply(async_test!)]
async fn building_a_node_for_a_dead_server_succeeds_and_it_works_once_the_server_is_there() {
    let server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let error = node.execute(&acquire("k", token()), LONG).await;
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
    server.restart().unwrap();
    until_answered(&node).await;
}

#[apply(async_test!)]
async fn a_call_to_a_server_that_is_down_fails_fast_and_the_node_comes_back_by_itself() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    for _ in 0..3 {
        until_answered(&node).await;
        server.kill().unwrap();
        // The end of the connection is noticed without a call; until then a call may be lost.
        let start = Instant::now();
        loop {
            let error = node.execute(&acquire("k", token()), LONG).await;
            if error.unwrap_err().kind() == NodeErrorKind::NotSent {
                break;
            }
            assert!(start.elapsed() < LONG);
        }
        for _ in 0..20 {
            let error = node.execute(&acquire("k", token()), LONG).await;
            assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
        }
        assert!(start.elapsed() < LONG, "none waited for its deadline");
        server.restart().unwrap();
    }
}

#[apply(async_test!)]
async fn a_connection_that_the_server_closes_while_nobody_calls_costs_no_call() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    for _ in 0..5 {
        let reply = node.execute(&release("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::Int(0));
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
        sleep(Duration::from_millis(300)).await;
    }
}

#[apply(async_test!)]
async fn many_first_calls_open_one_connection() {
    let server = FakeServer::start(|_, _| Act::Answer("+OK\r\n"));
    let node = RedisRsNode::new(server.url()).unwrap();
    let command = acquire("k", token());
    let calls = (0..100).map(|_| node.execute(&command, LONG));
    for reply in join_all(calls).await {
        assert_eq!(reply.unwrap(), Reply::ok());
    }
    assert_eq!(server.accepted(), 1);
}

#[apply(async_test!)]
async fn connects_that_fail_are_spaced_and_stop_when_nobody_calls() {
    let server = FakeServer::start(|_, _| Act::Close);
    let node = RedisRsNode::new(server.url()).unwrap();
    let command = acquire("k", token());
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_millis(500) {
        let error = node.execute(&command, LONG).await.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        assert!(chain(&error).starts_with("cannot connect: "), "{error}");
        calls += 1;
        yield_now().await;
    }
    let connects = server.accepted();
    // Pauses of 5, 10, 20, 40, 80 and 125 ms at least: the seventh ends the time.
    assert!((2..=8).contains(&connects), "{connects}");
    assert!(calls > 10 * connects, "{calls} calls, {connects} connects");

    sleep(Duration::from_millis(600)).await;
    assert_eq!(server.accepted(), connects);
}

#[apply(async_test!)]
async fn a_connection_that_breaks_before_any_reply_counts_as_a_failed_connect() {
    let server = FakeServer::start(|_, words| match words[0].as_slice() {
        b"CLIENT" => Act::Answer("+OK\r\n"),
        _ => Act::Close,
    });
    let node = RedisRsNode::new(server.url()).unwrap();
    let command = acquire("k", token());
    let start = Instant::now();
    let is_over = |accepted| start.elapsed() > Duration::from_millis(500) && accepted >= 2;
    while !is_over(server.accepted()) && start.elapsed() < LONG {
        node.execute(&command, LONG).await.unwrap_err();
        yield_now().await;
    }
    let connects = server.accepted();
    assert!((2..=8).contains(&connects), "{connects}");
}

#[apply(async_test!)]
async fn calls_that_wait_for_the_connection_leave_in_their_order() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let node = Arc::new(node.connect_timeout(LONG));
    server.pause().unwrap();
    let mut calls = Vec::new();
    for n in 0..100 {
        let (key, token) = (format!("k{n}"), token());
        calls.push(acquire(&key, token));
        calls.push(release(&key, token));
    }
    let calls = calls.iter().map(|command| node.execute(command, LONG));
    // The first polls come in this order, since `join_all` polls in order.
    let (replies, ()) = futures::join!(join_all(calls), async {
        sleep(SHORT).await;
        server.resume().unwrap();
    });
    for pair in replies.chunks(2) {
        assert_eq!(pair[0].as_ref().unwrap(), &Reply::ok());
        assert_eq!(pair[1].as_ref().unwrap(), &Reply::Int(1));
    }
    assert_eq!(keys(&server), 0);
}

#[apply(async_test!)]
async fn a_call_that_waits_in_vain_for_the_connection_is_never_sent() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let node = node.connect_timeout(LONG);
    server.pause().unwrap();
    for n in 0..3 {
        let late = acquire(format!("late{n}"), token());
        let error = node.execute(&late, SHORT).await.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        let dropped = acquire(format!("dropped{n}"), token());
        let dropped = node.execute(&dropped, LONG);
        assert!(timeout(SHORT, dropped).await.is_err());
    }
    server.resume().unwrap();
    until_answered(&node).await;
    assert_eq!(keys(&server), 0);
    assert_eq!(calls(&server, "set"), 0);
}

#[apply(async_test!)]
async fn calls_do_not_wait_for_a_connect_that_has_run_for_longer_than_they_may() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let node = node.connect_timeout(LONG);
    server.pause().unwrap();
    let command = acquire("k", token());
    node.execute(&command, SHORT).await.unwrap_err();
    sleep(SHORT / 2).await;
    let polled_once = futures::poll!(node.execute(&command, SHORT));
    assert!(
        matches!(&polled_once, std::task::Poll::Ready(Err(error))
            if error.kind() == NodeErrorKind::NotSent),
        "{polled_once:?}"
    );
    server.resume().unwrap();
    until_answered(&node).await;
    assert_eq!(keys(&server), 0);
}

#[apply(async_test!)]
async fn the_caller_who_started_the_connect_may_go_and_it_goes_on() {
    let answers = Arc::new(AtomicBool::new(false));
    let may_answer = Arc::clone(&answers);
    let server = FakeServer::start(move |_, _| {
        while !may_answer.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Act::Answer("+OK\r\n")
    });
    let node = RedisRsNode::new(server.url()).unwrap();
    let node = node.connect_timeout(LONG);
    let command = acquire("k", token());
    let mut first = Box::pin(node.execute(&command, LONG));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(node.execute(&command, LONG));
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    answers.store(true, Ordering::SeqCst);
    assert_eq!(second.await.unwrap(), Reply::ok());
    assert_eq!(server.accepted(), 1);
    assert_eq!(server.received().len(), 1);
}
