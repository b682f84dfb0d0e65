//! Locks over a unix socket.

#![cfg(unix)]
// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use lock_core::node::NodeErrorKind;
use lock_core::{DistributedLockExt, LockRequest, RedisNode, Redlock, Reply};
use lock_redis_rs::RedisRsNode;
use support::{
    LONG, RedisServer, SHORT, acquire, apply, async_test, chain, eventually, release, sleep, token,
    until_answered,
};

fn start() -> RedisServer {
    let server = RedisServer::builder().arg("--unixsocket", "redis.sock");
    server.start().unwrap()
}

fn socket(server: &RedisServer) -> String {
    let path = server.dir().join("redis.sock");
    path.to_str().unwrap().to_owned()
}

fn node(path: &str) -> RedisRsNode {
    RedisRsNode::new(format!("unix://{path}")).unwrap()
}

/// What is said of a socket that cannot be connected to.
async fn cause_at(path: &Path) -> String {
    let node = node(path.to_str().unwrap());
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "cannot connect");
    chain(&error)
}

#[apply(async_test!)]
async fn a_lock_of_three_sockets_is_acquired_extended_and_released() {
    let servers: Vec<_> = (0..3).map(|_| start()).collect();
    let paths: Vec<_> = servers.iter().map(socket).collect();
    let nodes = paths.iter().map(|path| node(path));
    let locks = Redlock::builder().nodes(nodes).node_timeout(10 * SHORT);
    let locks = locks.build().unwrap();
    let request = LockRequest::new("invoice").max_wait(LONG);
    let guard = locks.lock(request).await.unwrap();
    assert!(locks.try_lock("invoice").await.unwrap().is_none());
    guard.extend(Duration::from_secs(60)).await.unwrap();
    guard.release().await.unwrap();
    let is_empty = |server: &RedisServer| server.command(&["DBSIZE"]).unwrap() == Reply::Int(0);
    eventually("all are released", || servers.iter().all(is_empty)).await;
}

#[apply(async_test!)]
async fn the_path_is_the_label_and_the_rest_of_the_url_is_used() {
    let server = start();
    for words in [
        "ACL SETUSER locks on >s3cr3t ~* +@all",
        "CONFIG SET requirepass other",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        server.command(&words).unwrap();
    }
    let path = socket(&server);
    for protocol in ["resp2", "resp3"] {
        let url = format!("unix://{path}?db=3&user=locks&pass=s3cr3t&protocol={protocol}");
        let node = RedisRsNode::new(url).unwrap();
        assert_eq!(node.label(), path);
        assert!(!format!("{node:?}").contains("s3cr3t"));
        let mine = token();
        let granted = node.execute(&acquire("k", mine), LONG).await.unwrap();
        assert_eq!(granted, Reply::ok());
        let mut connection = server.connect().unwrap();
        connection.command(&["AUTH", "other"]).unwrap();
        connection.command(&["SELECT", "3"]).unwrap();
        let found = connection.command(&["EXISTS", "k"]).unwrap();
        assert_eq!(found, Reply::Int(1));
        node.execute(&release("k", mine), LONG).await.unwrap();
    }
}

#[apply(async_test!)]
async fn the_node_comes_back_after_a_restart_and_an_idle_end_costs_no_call() {
    let server = start();
    let node = node(&socket(&server));
    for _ in 0..3 {
        until_answered(&node).await;
        server.restart().unwrap();
    }
    for _ in 0..3 {
        until_answered(&node).await;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
        sleep(Duration::from_millis(300)).await;
        let reply = node.execute(&release("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::Int(0));
    }
}

#[apply(async_test!)]
async fn a_socket_that_cannot_be_reached_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.sock");
    assert!(cause_at(&missing).await.contains("No such file"));

    let nobody = dir.path().join("nobody.sock");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    // A server that another test starts may hold a copy of the listener for a moment.
    let start = Instant::now();
    loop {
        let cause = cause_at(&nobody).await;
        if cause.contains("refused") {
            break;
        }
        assert!(start.elapsed() < LONG, "{cause}");
        sleep(SHORT).await;
    }

    let long = dir.path().join("x".repeat(120));
    let cause = cause_at(&long).await;
    // std's words, which tokio uses, and those of the system.
    let is_told = cause.contains("SUN_LEN") || cause.contains("too long");
    assert!(is_told, "{cause}");

    let listener = dir.path().join("mine.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&listener).unwrap();
    std::fs::set_permissions(&listener, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::os::unix::net::UnixStream::connect(&listener).is_ok() {
        println!("not run: nothing is forbidden to root");
        return;
    }
    let cause = cause_at(&listener).await;
    assert!(cause.contains("Permission denied"), "{cause}");
}

#[test]
fn a_url_without_a_path_is_refused() {
    for url in ["unix://", "unix://host/path", "unix:///path?db=x"] {
        assert!(RedisRsNode::new(url).is_err(), "{url}");
    }
}
