//! Errors keep the server's code and the transport's cause, and show no secret.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::error::Error;
use std::time::Duration;

use lock_core::node::NodeErrorKind;
use lock_core::{Command, NodeError, RedisNode};
use lock_redis_rs::RedisRsNode;
use support::*;

const SECRET: &str = "s3cr3t/p@ss";
const SECRET_IN_URL: &str = "s3cr3t%2Fp%40ss";

async fn error_of(node: &RedisRsNode, command: &Command) -> NodeError {
    node.execute(command, LONG).await.unwrap_err()
}

fn run(server: &RedisServer, words: &str) {
    server
        .command(&words.split(' ').collect::<Vec<_>>())
        .unwrap();
}

#[apply(async_test!)]
async fn every_error_line_arrives_as_it_stood_on_the_wire() {
    const LINES: [&str; 18] = [
        "-NOAUTH Authentication required.\r\n",
        "-NOPERM this user has no permissions to run the 'set' command\r\n",
        "-WRONGPASS invalid username-password pair\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-MOVED 3999 127.0.0.1:6381\r\n",
        "-ASK 3999 127.0.0.1:6381\r\n",
        "-CLUSTERDOWN Hash slot not served\r\n",
        "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-WRONGTYPE Operation against a key\r\n",
        "-ERR syntax  error: two spaces\r\n",
        "-UNHEARDOF\r\n",
    ];
    let next = std::sync::atomic::AtomicUsize::new(0);
    let server = FakeServer::start(move |_, words| match words[0].as_slice() {
        b"CLIENT" => Act::Answer("+OK\r\n"),
        _ => Act::Answer(LINES[next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)]),
    });
    let node = RedisRsNode::new(server.url()).unwrap();
    for line in LINES {
        let error = error_of(&node, &acquire("k", token())).await;
        let line = line.trim_start_matches('-').trim_end();
        assert_eq!(error.to_string(), line);
        assert_eq!(error.code(), line.split(' ').next());
        assert_eq!(error.kind(), NodeErrorKind::Server);
    }
    assert_eq!(server.accepted(), 1, "an error reply breaks no connection");
    assert_eq!(server.received().len(), LINES.len(), "none is sent twice");
}

#[apply(async_test!)]
async fn a_real_server_says_why_it_refuses() {
    for (setup, code) in [
        ("CONFIG SET requirepass x", "NOAUTH"),
        ("ACL SETUSER default -set", "NOPERM"),
        ("REPLICAOF 127.0.0.1 1", "READONLY"),
        ("CONFIG SET maxmemory 1", "OOM"),
    ] {
        let server = RedisServer::start().unwrap();
        run(&server, setup);
        let node = RedisRsNode::new(server.url()).unwrap();
        let error = error_of(&node, &acquire("k", token())).await;
        assert_eq!(error.code(), Some(code), "{error}");
    }
}

#[apply(async_test!)]
async fn a_command_denied_inside_a_script_is_an_error_of_permission() {
    let server = RedisServer::start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let mine = token();
    node.execute(&acquire("k", mine), LONG).await.unwrap();
    run(&server, "ACL SETUSER default -del");
    let error = error_of(&node, &release("k", mine)).await;
    assert_eq!(error.code(), Some("ERR"));
    assert!(error.is_permission(), "{error}");
}

#[apply(async_test!)]
async fn a_cluster_node_says_that_it_is_one() {
    let server = RedisServer::builder().arg("--cluster-enabled", "yes");
    let server = server.start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
    run(&server, "CLUSTER ADDSLOTSRANGE 0 16383");
    let two = extend(&[(b"a", token()), (b"b", token())]);
    let error = error_of(&node, &two).await;
    assert_eq!(error.code(), Some("CROSSSLOT"), "{error}");
}

#[apply(async_test!)]
async fn a_server_that_runs_a_script_for_too_long_is_busy() {
    let server = RedisServer::builder().arg("--busy-reply-threshold", "20");
    let server = server.start().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    until_answered(&node).await;
    let mut endless = server.connect().unwrap();
    endless.send(&["EVAL", "while true do end", "0"]).unwrap();
    let error = loop {
        match node.execute(&acquire("k", token()), LONG).await {
            Ok(_) => sleep(Duration::from_millis(10)).await,
            Err(error) => break error,
        }
    };
    run(&server, "SCRIPT KILL");
    assert_eq!(error.code(), Some("BUSY"), "{error}");
    assert!(endless.receive().is_err(), "it was killed");
}

#[apply(async_test!)]
async fn a_refused_connection_is_not_sent_and_its_cause_is_told_apart() {
    let server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let node = RedisRsNode::new(server.url()).unwrap();
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "cannot connect");
    let cause = error.source().unwrap().to_string();
    assert!(cause.starts_with("Connection refused"), "{cause}");
}

#[apply(async_test!)]
async fn a_host_that_does_not_exist_is_not_sent_with_its_cause() {
    let node = RedisRsNode::new("redis://nope.invalid:6379").unwrap();
    let node = node.connect_timeout(LONG / 2);
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.source().is_some());
}

#[apply(async_test!)]
async fn a_listener_that_never_answers_the_handshake_is_told_by_its_cause() {
    let server = FakeServer::start(|_, _| Act::Silence);
    let node = RedisRsNode::new(server.url()).unwrap();
    let node = node.connect_timeout(SHORT);
    let error = error_of(&node, &acquire("k", token())).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(chain(&error).contains("handshake"), "{}", chain(&error));
}

#[apply(async_test!)]
async fn a_server_that_speaks_something_else_is_not_sent_with_a_cause() {
    // The alert of a TLS server that is spoken to in plain text.
    let server = FakeServer::start(|_, _| Act::Answer("\x15\x03\x01\x00\x02\x02\x46"));
    let node = RedisRsNode::new(server.url()).unwrap();
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
        let node = RedisRsNode::new(url(SECRET_IN_URL)).unwrap();
        until_answered(&node).await;

        let wrong = RedisRsNode::new(url(&format!("{SECRET_IN_URL}x"))).unwrap();
        let error = error_of(&wrong, &acquire("k", token())).await;
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        let cause = chain(&error).to_lowercase();
        assert!(
            cause.contains("auth") || cause.contains("wrongpass"),
            "{cause}"
        );
        let shown = format!("{node:?} {} {error:?} {error:#?} {cause}", node.label());
        for secret in [SECRET, SECRET_IN_URL, "s3cr3t"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains(&format!("127.0.0.1:{}", server.port())));
    }
}

#[test]
fn a_malformed_url_is_an_error_of_its_own_that_names_it_without_its_secret() {
    for url in [
        "redis://user:s3cr3t@host:6379/nodb",
        "http://user:s3cr3t@host:6379",
        "rediss://user:s3cr3t@host:6379/nodb",
        "rediss://user:s3cr3t@host:6379#insecure",
        "redis://user:s3cr3t@host:port",
        "redis://user:s3cr3t@host/?protocol=9",
    ] {
        let error = RedisRsNode::new(url).unwrap_err();
        let source = error.source().unwrap();
        let shown = format!("{error} {error:?} {source} {source:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert!(shown.contains("@host"), "{shown}");
    }
}

#[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
#[test]
fn a_url_for_tls_without_a_feature_for_it_names_the_features() {
    for url in ["rediss://host:6379", "valkeys://host", "REDISS://host"] {
        let error = RedisRsNode::new(url).unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert_eq!(
            cause,
            "TLS needs one of the features `rustls`, `rustls-ring` and `native-tls` of \
             lock-redis-rs"
        );
    }
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#[test]
fn tls_without_a_check_of_the_certificate_is_refused() {
    let error = RedisRsNode::new("rediss://host:6379#insecure").unwrap_err();
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("RedisRsNode::tls"), "{cause}");
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#[test]
fn what_is_no_certificate_is_refused_and_not_shown() {
    use lock_redis_rs::Tls;

    let key = b"-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----\n";
    for error in [
        Tls::new().root_certificates(b"").unwrap_err(),
        Tls::new().root_certificates(key).unwrap_err(),
        Tls::new().client_certificate(b"", key).unwrap_err(),
        Tls::new().client_certificate(key, b"s3cr3t").unwrap_err(),
    ] {
        let cause = error.source().unwrap();
        let shown = format!("{error} {error:?} {cause}");
        assert!(shown.starts_with("cannot use the "), "{shown}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[test]
fn the_label_is_the_server_whatever_the_database_or_the_user() {
    let label = |url: &str| RedisRsNode::new(url).unwrap().label().to_owned();
    assert_eq!(label("redis://Host:7000/0"), "host:7000");
    assert_eq!(label("redis://u:p@host:7000/1?protocol=3"), "host:7000");
    assert_eq!(label("redis://host"), "host:6379");
    assert_eq!(label("redis://[::1]:7000"), "[::1]:7000");
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    assert_eq!(label("rediss://u:p@Host:7000/1"), "host:7000");
    assert_eq!(label("unix:///run/redis.sock?pass=p"), "/run/redis.sock");
}
