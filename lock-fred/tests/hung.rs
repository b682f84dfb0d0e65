//! A server that hangs, and a connection that leads nowhere.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::future::join_all;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_fred::FredNode;
use support::*;

/// A node that is connected.
async fn connected(server: &RedisServer) -> FredNode {
    let node = FredNode::new(server.url()).unwrap();
    until_answered(&node).await;
    node
}

/// Three calls without an answer, one after the other, after which the connection is replaced.
async fn time_out_three_times(node: &FredNode) {
    for _ in 0..3 {
        let error = node.execute(&release("nobody", token()), SHORT).await;
        assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    }
}

#[tokio::test]
async fn a_call_to_a_hung_server_answers_when_its_time_is_over_and_not_before() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    // Nobody watches deadlines while nobody calls.
    tokio::time::sleep(4 * SHORT).await;
    server.pause().unwrap();
    for within in [20, 100, 200].map(Duration::from_millis) {
        let start = Instant::now();
        let error = node.execute(&acquire("k", token()), within).await;
        let error = error.unwrap_err();
        assert!(start.elapsed() >= within);
        assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
        assert_eq!(
            error.to_string(),
            format!("no answer in {} ms", within.as_millis())
        );
    }
    server.resume().unwrap();
}

#[tokio::test]
async fn a_short_deadline_is_kept_while_a_long_one_runs() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    server.pause().unwrap();
    let (long, short) = (release("a", token()), release("b", token()));
    let mut long = Box::pin(node.execute(&long, LONG));
    assert!(futures::poll!(&mut long).is_pending());
    let error = node.execute(&short, SHORT).await.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
    assert!(futures::poll!(&mut long).is_pending());
    server.resume().unwrap();
    assert_eq!(long.await.unwrap(), Reply::Int(0));
}

#[tokio::test]
async fn a_node_votes_again_after_its_server_hung_for_a_while() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    for _ in 0..2 {
        server.pause().unwrap();
        for _ in 0..20 {
            let error = node.execute(&acquire("k", token()), SHORT / 5).await;
            assert!(error.is_err());
        }
        server.resume().unwrap();
        until_answered(&node).await;
    }
}

#[tokio::test]
async fn a_connection_that_leads_nowhere_is_replaced_after_three_calls() {
    let dead = Arc::new(AtomicBool::new(false));
    let is_dead = Arc::clone(&dead);
    let server = FakeServer::start(move |connection, _| {
        if connection == 0 && is_dead.load(Ordering::SeqCst) {
            Act::Silence
        } else {
            Act::Answer("+OK\r\n")
        }
    })
    .await;
    let node = FredNode::new(server.url()).unwrap();
    let command = release("k", token());
    node.execute(&command, LONG).await.unwrap();
    dead.store(true, Ordering::SeqCst);
    time_out_three_times(&node).await;
    assert_eq!(server.accepted(), 1);
    assert_eq!(node.execute(&command, LONG).await.unwrap(), Reply::ok());
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_reply_in_between_or_a_burst_of_timeouts_does_not_replace_the_connection() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    let connections = || {
        let info = server.command(&["INFO", "stats"]).unwrap();
        let Reply::Bytes(info) = info else {
            panic!("no INFO");
        };
        let info = String::from_utf8(info).unwrap();
        let received = info
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"));
        received.unwrap().parse::<u64>().unwrap()
    };
    let before = connections();
    for _ in 0..3 {
        server.pause().unwrap();
        let command = release("nobody", token());
        let burst = (0..10).map(|_| node.execute(&command, SHORT));
        for reply in join_all(burst).await {
            assert_eq!(reply.unwrap_err().kind(), NodeErrorKind::NoAnswer);
        }
        let error = node.execute(&command, SHORT).await.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
        server.resume().unwrap();
        // No retries: one that is late would be the third timeout in a row.
        node.execute(&command, LONG).await.unwrap();
    }
    assert_eq!(connections() - before, 1, "only the one that asks");
}

#[tokio::test]
async fn no_key_stays_behind_when_releases_overtake_their_acquires_on_a_new_connection() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    server.pause().unwrap();
    let attempts: Vec<_> = (0..40).map(|n| (format!("k{n}"), token())).collect();
    let acquires: Vec<_> = attempts.iter().map(|(k, t)| acquire(k, *t)).collect();
    let calls = acquires.iter().map(|command| node.execute(command, SHORT));
    for reply in join_all(calls).await {
        assert_eq!(reply.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    }
    time_out_three_times_or_less(&node).await;
    // These wait for the new connection, or fail: either way they are not behind the acquires.
    let releases: Vec<_> = attempts.iter().map(|(k, t)| release(k, *t)).collect();
    let calls = releases.iter().map(|command| node.execute(command, LONG));
    let ((), _replies) = futures::join!(
        async {
            tokio::time::sleep(SHORT).await;
            server.resume().unwrap();
        },
        join_all(calls)
    );
    eventually("no key", || {
        calls_of_set(&server) == 40 && keys(&server) == 0
    })
    .await;
}

#[tokio::test]
async fn a_replaced_connection_undoes_its_doubtful_acquires_by_itself() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    server.pause().unwrap();
    let timed_out = acquire("timed out", token());
    node.execute(&timed_out, SHORT).await.unwrap_err();
    let dropped = acquire_or_report("dropped", token());
    let dropped = node.execute(&dropped, LONG);
    assert!(tokio::time::timeout(SHORT, dropped).await.is_err());
    // These two are in flight when the connection is replaced, and end later.
    let (late, later) = (acquire("late", token()), acquire("later", token()));
    let mut late = Box::pin(node.execute(&late, 6 * SHORT));
    assert!(futures::poll!(&mut late).is_pending());
    let mut later = Box::pin(node.execute(&later, LONG));
    assert!(futures::poll!(&mut later).is_pending());
    time_out_three_times_or_less(&node).await;
    let error = late.await.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
    drop(later);
    server.resume().unwrap();
    eventually("no key", || {
        calls_of_set(&server) == 4 && keys(&server) == 0
    })
    .await;
}

#[tokio::test]
async fn calls_beyond_a_bound_are_not_sent_and_thousands_of_dropped_ones_leave_no_key() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    server.pause().unwrap();
    let commands: Vec<_> = (0..9_000)
        .map(|n| acquire(format!("k{n}"), token()))
        .collect();
    let mut calls: Vec<_> = commands.iter().map(|c| node.execute(c, LONG)).collect();
    let mut in_flight = 0;
    for call in &mut calls {
        match futures::poll!(call) {
            Poll::Pending => in_flight += 1,
            Poll::Ready(error) => {
                assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
            }
        }
    }
    assert!((8_000..8_500).contains(&in_flight), "{in_flight}");
    // Let the first of them reach the server; the rest waits for its turn in our own process.
    tokio::time::sleep(SHORT).await;
    drop(calls);
    server.resume().unwrap();
    until_answered(&node).await;
    eventually("no key", || calls_of_set(&server) > 0 && keys(&server) == 0).await;
}

#[tokio::test]
async fn a_replaced_connection_undoes_no_acquire_that_was_answered() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    let (held, doubtful) = (token(), token());
    node.execute(&acquire("held", held), LONG).await.unwrap();
    // In doubt for a while: by the next reply on the connection it has had its turn, so that
    // whatever the lock decides about it since then must stand.
    server.pause().unwrap();
    let error = node.execute(&acquire("doubtful", doubtful), SHORT).await;
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    server.resume().unwrap();
    let in_between = release("nobody", token());
    node.execute(&in_between, LONG).await.unwrap();

    server.pause().unwrap();
    time_out_three_times(&node).await;
    server.resume().unwrap();
    until_answered(&node).await;
    // The releases of `nobody` on the old connection have run by the time all are counted.
    eventually("the old connection is served", || {
        calls(&server, "eval") >= 5
    })
    .await;
    tokio::time::sleep(SHORT).await;
    for (key, token) in [("held", held), ("doubtful", doubtful)] {
        let value = server.command(&["GET", key]).unwrap();
        assert_eq!(value, Reply::Bytes(token.as_bytes().to_vec()), "{key}");
    }
}

/// Until the connection is replaced: from then on calls are not sent.
async fn time_out_three_times_or_less(node: &FredNode) {
    for _ in 0..4 {
        let error = node.execute(&release("nobody", token()), SHORT).await;
        if error.unwrap_err().kind() == NodeErrorKind::NotSent {
            return;
        }
    }
    panic!("the connection was not replaced");
}

fn calls_of_set(server: &RedisServer) -> u64 {
    calls(server, "set")
}
