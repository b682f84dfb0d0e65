//! Errors keep the server's code and the transport's cause, and show no secret.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::node::NodeErrorKind;
use lock_core::{Command, NodeError, RedisNode};
use lock_testkit::RedisServer;

use crate::backend::{CLOSES_AT_CLUSTERDOWN, Node, node};
use crate::support::*;

const SECRET: &str = "s3cr3t/p@ss";
const SECRET_IN_URL: &str = "s3cr3t%2Fp%40ss";

async fn error_of(node: &Node, command: &Command) -> NodeError {
    node.execute(command, LONG).await.unwrap_err()
}

fn run(server: &RedisServer, words: &str) {
    server
        .command(&words.split(' ').collect::<Vec<_>>())
        .unwrap();
}

#[apply(async_test!)]
async fn every_error_line_arrives_as_it_stood_on_the_wire() {
    const LINES: [&str; 15] = [
        "-NOAUTH Authentication required.\r\n",
        "-NOPERM this user has no permissions to run the 'set' command\r\n",
        "-WRONGPASS invalid username-password pair\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-MOVED 3999 127.0.0.1:6381\r\n",
        "-ASK 3999 127.0.0.1:6381\r\n",
        "-CLUSTERDOWN Hash slot not served\r\n",
        "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        "-WRONGTYPE Operation against a key\r\n",
        "-ERR syntax  error: two spaces\r\n",
        "-UNHEARDOF\r\n",
    ];
    // After these the node looks for another server.
    const WRONG_SERVER: [&str; 3] = [
        "-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
    ];
    let server = arrives(&LINES).await;
    // No other error reply breaks a connection.
    let connections = 1 + usize::from(CLOSES_AT_CLUSTERDOWN);
    assert_eq!(server.accepted(), connections);
    arrives(&WRONG_SERVER).await;
}

/// A server that answered with one line after the other, each of which arrived.
async fn arrives(lines: &'static [&'static str]) -> FakeServer {
    let next = AtomicUsize::new(0);
    let server =
        FakeServer::start(move |_, _| Act::Answer(lines[next.fetch_add(1, Ordering::SeqCst)]));
    let node = node(server.url());
    for line in lines {
        let error = error_of(&node, &acquire("k", token())).await;
        let line = line.trim_start_matches('-').trim_end();
        let of_cluster = matches!(error.code(), Some("MOVED" | "ASK"));
        let told = if of_cluster {
            " (this node is part of a cluster)"
        } else {
            ""
        };
        assert_eq!(error.to_string(), format!("{line}{told}"));
        assert_eq!(error.code(), line.split(' ').next());
        assert_eq!(error.kind(), NodeErrorKind::Server);
    }
    assert_eq!(server.received().len(), lines.len(), "none is sent twice");
    server
}

#[apply(async_test!)]
async fn a_cluster_node_says_that_it_is_one() {
    let server = RedisServer::builder().arg("--cluster-enabled", "yes");
    let server = server.start().unwrap();
    let node = node(server.url());
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
    // Redis before 7.0 takes no range.
    let slots = (0..16_384).map(|slot| slot.to_string()).collect::<Vec<_>>();
    run(&server, &format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
    let two = extend(&[(b"a", token()), (b"b", token())]);
    // A client that closes the connection at this keeps the code during the pause.
    let mut error = error_of(&node, &two).await;
    while CLOSES_AT_CLUSTERDOWN && error.code() == Some("CLUSTERDOWN") {
        error = error_of(&node, &two).await;
    }
    assert_eq!(error.code(), Some("CROSSSLOT"), "{error}");
}

#[apply(async_test!)]
async fn a_refused_connection_is_not_sent_and_its_cause_is_told_apart() {
    let server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let node = node(server.url());
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "cannot connect");
    let cause = error.source().unwrap().to_string();
    assert!(cause.starts_with("Connection refused"), "{cause}");
}

#[apply(async_test!)]
async fn a_host_that_does_not_exist_is_not_sent_with_its_cause() {
    let node = node("redis://nope.invalid:6379").connect_timeout(LONG / 2);
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.source().is_some());
}

#[apply(async_test!)]
async fn a_listener_that_never_answers_the_handshake_is_told_by_its_cause() {
    let server = FakeServer::start_raw(|_, _| Act::Silence);
    let node = node(server.url()).connect_timeout(SHORT);
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(chain(&error).contains("handshake"), "{}", chain(&error));
}

#[apply(async_test!)]
async fn a_server_that_speaks_something_else_is_not_sent_with_a_cause() {
    // The alert of a TLS server that is spoken to in plain text.
    let server = FakeServer::start_raw(|_, _| Act::Answer("\x15\x03\x01\x00\x02\x02\x46"));
    let node = node(server.url());
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.source().is_some());
}

#[apply(async_test!)]
async fn a_password_in_a_url_works_and_shows_nowhere() {
    let server = RedisServer::builder().arg("--requirepass", SECRET);
    let server = server.start().unwrap();
    for protocol in ["", "/?protocol=resp3"] {
        let url = |secret: &str| format!("redis://:{secret}@127.0.0.1:{}{protocol}", server.port());
        let right = node(url(SECRET_IN_URL));
        until_answered(&right).await;

        let wrong = node(url(&format!("{SECRET_IN_URL}x")));
        let error = error_of(&wrong, &acquire("k", token())).await;
        let cause = chain(&error).to_lowercase();
        assert!(
            cause.contains("auth") || cause.contains("wrongpass"),
            "{cause}"
        );
        let shown = format!("{right:?} {} {error:?} {error:#?} {cause}", right.label());
        for secret in [SECRET, SECRET_IN_URL, "s3cr3t"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains(&format!("127.0.0.1:{}", server.port())));
    }
}
