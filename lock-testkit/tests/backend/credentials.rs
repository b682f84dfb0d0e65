//! Credentials that change while a node lives.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join;
use lock_core::backend::Credentials;
use lock_core::node::NodeErrorKind;
use lock_core::{DistributedLockExt, LockRequest, RedisNode, Redlock};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
use crate::support::*;

/// What a service knows of its password, and how often it was asked.
#[derive(Clone)]
struct Vault(Arc<(Mutex<&'static str>, AtomicUsize)>);

impl Vault {
    fn with(password: &'static str) -> Self {
        Self(Arc::new((Mutex::new(password), AtomicUsize::new(0))))
    }

    fn set(&self, password: &'static str) {
        *self.0.0.lock().unwrap() = password;
    }

    fn asked(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    /// A node whose URL has nothing that the server knows.
    fn node(&self, server: &RedisServer, protocol: &str) -> Node {
        let vault = self.clone();
        let url = format!(
            "redis://somebody:nothing@{}/?protocol={protocol}",
            server.addr()
        );
        node(url).credentials_at_connect(move || {
            vault.0.1.fetch_add(1, Ordering::SeqCst);
            let password = *vault.0.0.lock().unwrap();
            async move { Ok::<_, std::convert::Infallible>(Credentials::new("locks", password)) }
        })
    }
}

fn set_password(server: &RedisServer, password: &str) {
    let password = format!(">{password}");
    let words = [
        "ACL",
        "SETUSER",
        "locks",
        "on",
        "resetpass",
        &password,
        "~*",
        "+@all",
    ];
    server.command(&words).unwrap();
}

#[apply(async_test!)]
async fn credentials_are_asked_for_at_each_connect_and_held_locks_live_on() {
    for protocol in ["resp2", "resp3"] {
        let server = RedisServer::start().unwrap();
        set_password(&server, "first");
        let vault = Vault::with("first");
        let node = vault.node(&server, protocol);
        until_answered(&node).await;
        let locks = Redlock::builder()
            .nodes([node])
            .node_timeout(10 * SHORT)
            .build()
            .unwrap();
        let guard = locks.lock("k").await.unwrap();
        assert_eq!(vault.asked(), 1);

        set_password(&server, "second");
        vault.set("second");
        server
            .command(&["CLIENT", "KILL", "USER", "locks"])
            .unwrap();
        // The connection may be found broken first.
        let mut extended = guard.extend(Duration::from_secs(30)).await;
        for _ in 0..3 {
            if extended.is_err() {
                extended = guard.extend(Duration::from_secs(30)).await;
            }
        }
        extended.unwrap();
        assert!(vault.asked() >= 2);
        guard.release().await.unwrap();
    }
}

#[apply(async_test!)]
async fn a_lock_that_waits_outlasts_credentials_that_the_server_does_not_know_yet() {
    let server = RedisServer::start().unwrap();
    set_password(&server, "first");
    let vault = Vault::with("second");
    let node = vault.node(&server, "resp2");
    let locks = Redlock::builder()
        .nodes([node])
        .node_timeout(10 * SHORT)
        .build()
        .unwrap();
    let guard = locks.lock(LockRequest::new("k").max_wait(LONG));
    let later = async {
        eventually("it was refused twice", || vault.asked() >= 3).await;
        set_password(&server, "second");
    };
    let (guard, ()) = join(guard, later).await;
    guard.unwrap().release().await.unwrap();
}

#[apply(async_test!)]
async fn what_keeps_credentials_from_coming_is_told_and_nothing_is_sent() {
    let server = RedisServer::start().unwrap();
    let node = || node(server.url()).connect_timeout(SHORT);
    let sealed = node().credentials_at_connect(|| async { Err("the vault is sealed") });
    let hung = node().credentials_at_connect(std::future::pending::<Result<_, &str>>);
    for (node, words) in [
        (
            sealed,
            ["cannot get the credentials", "the vault is sealed"],
        ),
        (
            hung,
            ["cannot connect", "no credentials or certificates in"],
        ),
    ] {
        let error = node
            .execute(&acquire("k", token()), LONG)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        let source = error.source().unwrap().to_string();
        assert_eq!(error.to_string(), words[0]);
        assert!(source.starts_with(words[1]), "{source}");
    }
    assert_eq!(keys(&server), 0);
}

#[apply(async_test!)]
async fn credentials_that_a_server_refuses_are_named_as_the_cause() {
    let server = RedisServer::start().unwrap();
    set_password(&server, "right");
    let node = Vault::with("wrong").node(&server, "resp2");
    let error = node
        .execute(&acquire("k", token()), LONG)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let source = error.source().unwrap().to_string();
    assert!(source.contains("WRONGPASS"), "{source}");
}
