//! A connection that breaks, and one that hangs: what the client took in leaves in its order.

use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
use crate::support::*;

/// A node that is connected.
async fn connected(server: &RedisServer) -> Node {
    let node = node(server.url());
    until_answered(&node).await;
    node
}

#[apply(async_test!)]
async fn a_connection_that_the_server_closes_while_nobody_calls_costs_no_call() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    for _ in 0..5 {
        let reply = node.execute(&release("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::Int(0));
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
        sleep(Duration::from_millis(300)).await;
    }
}

#[apply(async_test!)]
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
            sleep(SHORT).await;
            server.resume().unwrap();
        },
        join_all(calls)
    );
    eventually("no key", || {
        calls_of_set(&server) == 40 && keys(&server) == 0
    })
    .await;
}

#[apply(async_test!)]
async fn a_replaced_connection_undoes_its_doubtful_acquires_by_itself() {
    let server = RedisServer::start().unwrap();
    let node = connected(&server).await;
    server.pause().unwrap();
    let timed_out = acquire("timed out", token());
    node.execute(&timed_out, SHORT).await.unwrap_err();
    let dropped = acquire_or_report("dropped", token());
    let dropped = node.execute(&dropped, LONG);
    assert!(timeout(SHORT, dropped).await.is_err());
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

#[apply(async_test!)]
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
    sleep(SHORT).await;
    drop(calls);
    server.resume().unwrap();
    until_answered(&node).await;
    eventually("no key", || calls_of_set(&server) > 0 && keys(&server) == 0).await;
}

/// Until the connection is replaced: from then on calls are not sent.
async fn time_out_three_times_or_less(node: &Node) {
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
