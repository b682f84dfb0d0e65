//! Configurations, clients and pools that somebody has already.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::RespVersion;
use fred::types::config::{
    Blocking, Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, ServerConfig,
    UnresponsiveConfig,
};
use futures::future::join_all;
use lock_core::node::NodeErrorKind;
use lock_core::{RedisNode, Reply};
use lock_fred::FredNode;
use support::*;

fn config(server: &RedisServer) -> Config {
    Config::from_url(&server.url()).unwrap()
}

async fn lock_and_unlock(node: &FredNode) {
    let mine = token();
    let granted = node.execute(&acquire("k", mine), LONG).await.unwrap();
    assert_eq!(granted, Reply::ok());
    let refused = node.execute(&acquire("k", token()), LONG).await.unwrap();
    assert_eq!(refused, Reply::Nil);
    let released = node.execute(&release("k", mine), LONG).await.unwrap();
    assert_eq!(released, Reply::Int(1));
}

/// Each setting is the worst that a user may have.
fn bad_client(server: &RedisServer) -> Client {
    let config = Config {
        fail_fast: false,
        blocking: Blocking::Error,
        ..config(server)
    };
    let performance = PerformanceConfig {
        default_command_timeout: Duration::from_millis(1),
        ..PerformanceConfig::default()
    };
    let connection = ConnectionConfig {
        max_command_attempts: 10,
        max_command_buffer_len: 1,
        connection_timeout: Duration::from_secs(3600),
        internal_command_timeout: Duration::from_secs(3600),
        reconnect_on_auth_error: true,
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_millis(1)),
            interval: Duration::from_millis(1),
        },
        ..ConnectionConfig::default()
    };
    let policy = ReconnectPolicy::new_constant(0, 60_000);
    Client::new(config, Some(performance), Some(connection), Some(policy))
}

#[tokio::test]
async fn a_configuration_locks_and_unlocks_over_either_protocol() {
    let server = RedisServer::start().unwrap();
    for version in [RespVersion::RESP2, RespVersion::RESP3] {
        let config = Config {
            version,
            ..config(&server)
        };
        let node = FredNode::from_config(config).unwrap();
        assert_eq!(node.label(), server.addr().to_string());
        lock_and_unlock(&node).await;
    }
}

#[tokio::test]
async fn a_client_locks_and_unlocks_whether_it_is_connected_or_ended() {
    let server = RedisServer::start().unwrap();
    let client = Client::new(config(&server), None, None, None);
    let node = FredNode::from_client(&client).unwrap();
    lock_and_unlock(&node).await;
    client.init().await.unwrap();
    lock_and_unlock(&FredNode::from_client(&client).unwrap()).await;
    client.quit().await.unwrap();
    lock_and_unlock(&node).await;
    lock_and_unlock(&FredNode::from_client(&client).unwrap()).await;
}

#[tokio::test]
async fn no_setting_of_a_client_delays_repeats_or_loses_a_command() {
    let server = RedisServer::start().unwrap();
    let node = FredNode::from_client(&bad_client(&server)).unwrap();
    lock_and_unlock(&node).await;
    let commands: Vec<_> = (0..100)
        .map(|n| acquire(format!("k{n}"), token()))
        .collect();
    let granted = join_all(commands.iter().map(|command| node.execute(command, LONG))).await;
    assert!(
        granted
            .iter()
            .all(|reply| reply.as_ref().unwrap() == &Reply::ok())
    );
    server.command(&["FLUSHALL"]).unwrap();

    // Its deadline is the call's, neither shorter nor longer.
    server.pause().unwrap();
    let error = node.execute(&acquire("late", token()), SHORT).await;
    assert_eq!(error.unwrap_err().to_string(), "no answer in 100 ms");
    server.resume().unwrap();
    until_answered(&node).await;

    let before = calls(&server, "set");
    server.kill().unwrap();
    eventually_not_sent(&node).await;
    for n in 0..20 {
        let error = node.execute(&acquire(format!("k{n}"), token()), LONG).await;
        assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
    }
    server.restart().unwrap();
    until_answered(&node).await;
    assert!(before > 0);
    assert_eq!(calls(&server, "set"), 0, "none comes late");
}

#[tokio::test]
async fn a_pool_has_a_connection_for_each_client_and_one_for_each_key() {
    let server = RedisServer::start().unwrap();
    let pool = Pool::new(config(&server), None, None, None, 4).unwrap();
    let node = FredNode::from_pool(&pool).unwrap();
    assert_eq!(node.label(), server.addr().to_string());
    // A release that leaves right behind its acquire never overtakes it.
    for round in 0..20 {
        let mut commands = Vec::new();
        for n in 0..50 {
            let (key, mine) = (format!("{round}:{n}"), token());
            commands.push(acquire(&key, mine));
            commands.push(release(&key, mine));
        }
        let replies = join_all(commands.iter().map(|command| node.execute(command, LONG))).await;
        for pair in replies.chunks(2) {
            assert_eq!(pair[0].as_ref().unwrap(), &Reply::ok());
            assert_eq!(pair[1].as_ref().unwrap(), &Reply::Int(1));
        }
    }
    assert_eq!(keys(&server), 0);
    let clients = server.command(&["CLIENT", "LIST"]).unwrap();
    let Reply::Bytes(clients) = clients else {
        panic!("no list");
    };
    let clients = String::from_utf8(clients).unwrap().lines().count();
    assert_eq!(clients, 4 + 1, "and the one that asks");
}

#[test]
fn what_is_not_a_single_server_is_refused_by_the_name_of_its_setting() {
    let sentinel = "redis-sentinel://host:26379?sentinelServiceName=primary";
    for (url, found) in [
        ("redis-cluster://host:7000", "a cluster"),
        (sentinel, "behind sentinels"),
    ] {
        let config = Config::from_url(url).unwrap();
        let client = Client::new(config.clone(), None, None, None);
        let pool = Pool::new(config.clone(), None, None, None, 2).unwrap();
        for error in [
            FredNode::from_config(config).unwrap_err(),
            FredNode::from_client(&client).unwrap_err(),
            FredNode::from_pool(&pool).unwrap_err(),
        ] {
            assert_eq!(error.setting(), "Config::server");
            let start = format!("Config::server is {found}, but must be ServerConfig::Centralized");
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }
}

#[test]
fn credentials_that_fred_would_tear_apart_are_refused_without_being_shown() {
    for secret in [
        "s3cr3t with space",
        "s3cr3t\"",
        "'s3cr3t",
        "s3cr3t\r\nFLUSHALL",
    ] {
        let config = Config {
            version: RespVersion::RESP3,
            server: ServerConfig::new_centralized("host", 6379),
            password: Some(secret.to_owned()),
            ..Config::default()
        };
        let error = FredNode::from_config(config.clone()).unwrap_err();
        assert_eq!(error.setting(), "Config::password");
        assert!(!format!("{error} {error:?}").contains("s3cr3t"));
        let resp2 = Config {
            version: RespVersion::RESP2,
            ..config
        };
        let node = FredNode::from_config(resp2).unwrap();
        assert!(!format!("{node:?}").contains("s3cr3t"));
    }
}

#[tokio::test]
async fn any_password_works_over_resp2() {
    let secret = "p\"s' s\r\n%";
    let server = RedisServer::start().unwrap();
    server
        .command(&["CONFIG", "SET", "requirepass", secret])
        .unwrap();
    let config = Config {
        password: Some(secret.to_owned()),
        ..config(&server)
    };
    lock_and_unlock(&FredNode::from_config(config).unwrap()).await;
}

#[tokio::test]
async fn an_address_of_ip_version_6_is_found() {
    let listener = tokio::net::TcpListener::bind("[::1]:0").await;
    // A machine without IPv6 can say no more than that nothing connects.
    let Ok(listener) = listener else {
        let node = FredNode::new("redis://[::1]:1").unwrap();
        let error = node.execute(&acquire("k", token()), LONG).await;
        assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
        return;
    };
    let addr = listener.local_addr().unwrap();
    let node = FredNode::new(format!("redis://{addr}")).unwrap();
    assert_eq!(node.label(), addr.to_string());
    let command = acquire("k", token());
    let (accepted, _) = tokio::join!(listener.accept(), node.execute(&command, SHORT));
    accepted.unwrap();
}

#[cfg(feature = "unix-sockets")]
#[tokio::test]
async fn a_unix_socket_locks_and_unlocks_and_its_path_is_the_label() {
    let server = RedisServer::builder().arg("--unixsocket", "redis.sock");
    let server = server.start().unwrap();
    let path = server.dir().join("redis.sock");
    let node = FredNode::new(format!("redis+unix://{}", path.display())).unwrap();
    assert_eq!(node.label(), path.to_str().unwrap());
    lock_and_unlock(&node).await;
    server.kill().unwrap();
    eventually_not_sent(&node).await;
}

async fn eventually_not_sent(node: &FredNode) {
    let start = std::time::Instant::now();
    while node
        .execute(&acquire("k", token()), LONG)
        .await
        .unwrap_err()
        .kind()
        != NodeErrorKind::NotSent
    {
        assert!(start.elapsed() < LONG);
    }
}
