//! A command is sent at most once, and its reply is its own.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_fred::FredNode;
use support::*;

/// Numbers that jump about, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_leave_the_replies_of_others_with_their_commands() {
    let server = RedisServer::start().unwrap();
    let node = Arc::new(FredNode::new(server.url()).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16_u64 {
        let node = Arc::clone(&node);
        tasks.spawn(async move {
            let (key, holder) = (format!("k{task}"), token());
            let first = node.execute(&acquire(&key, holder), LONG).await;
            assert_eq!(first.unwrap(), Reply::ok());
            let (mut dice, mut kept) = (Dice(task + 1), 0);
            for _ in 0..125 {
                let command = acquire_or_report(&key, token());
                let mut call = Box::pin(node.execute(&command, LONG));
                let reply = match dice.roll(4) {
                    0 => (&mut call).now_or_never(),
                    1 => {
                        let patience = Duration::from_micros(dice.roll(500));
                        tokio::time::timeout(patience, &mut call).await.ok()
                    }
                    _ => Some(call.await),
                };
                if let Some(reply) = reply {
                    let Ok(Reply::Array(parts)) = reply else {
                        panic!("{reply:?}");
                    };
                    assert_eq!(parts[0], Reply::Bytes(holder.as_bytes().to_vec()));
                    kept += 1;
                }
            }
            kept
        });
    }
    let mut kept = 0;
    while let Some(task) = tasks.join_next().await {
        kept += task.unwrap();
    }
    assert!((500..1900).contains(&kept), "{kept} of 2000 were kept");
}

#[tokio::test]
async fn a_command_whose_reply_is_lost_is_not_sent_again() {
    let seen = AtomicUsize::new(0);
    let server = FakeServer::start(move |_, words| match words[0].as_slice() {
        // The connection breaks behind every other command.
        b"SET" if seen.fetch_add(1, Ordering::SeqCst) % 2 == 1 => Act::Close,
        _ => Act::Answer("+OK\r\n"),
    })
    .await;
    let node = FredNode::new(server.url()).unwrap();
    let mut answered = 0;
    for _ in 0..10 {
        let reply = node.execute(&acquire("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::ok());
        let error = node
            .execute(&acquire("k", token()), LONG)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::Connection, "{error}");
        assert!(std::error::Error::source(&error).is_some());
        answered += 1;
        assert_eq!(server.received().len(), 2 * answered);
        assert_eq!(server.accepted(), answered);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_is_sent_twice_while_connections_are_killed() {
    let server = Arc::new(RedisServer::start().unwrap());
    let node = Arc::new(FredNode::new(server.url()).unwrap());
    until_answered(&*node).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let node = Arc::clone(&node);
        tasks.spawn(async move {
            let (mut sent, mut answered) = (0, 0);
            for n in 0..600 {
                let command = acquire(format!("{task}:{n}"), token());
                match node.execute(&command, LONG).await {
                    // The reply of its first and only sending: a second one would be refused.
                    Ok(reply) => {
                        assert_eq!(reply, Reply::ok());
                        sent += 1;
                        answered += 1;
                    }
                    Err(error) if error.kind() == NodeErrorKind::NotSent => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), NodeErrorKind::Connection, "{error}");
                        sent += 1;
                    }
                }
            }
            (sent, answered)
        });
    }
    let killer = {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            for _ in 0..80 {
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let (mut sent, mut answered) = (0, 0);
    while let Some(task) = tasks.join_next().await {
        let counts = task.unwrap();
        sent += counts.0;
        answered += counts.1;
    }
    killer.await.unwrap();
    let executed = calls(&server, "set");
    assert!(
        answered <= executed && executed <= sent,
        "{answered} answered, {executed} executed, {sent} sent"
    );
}
