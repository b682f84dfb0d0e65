//! TLS that works.

use std::convert::Infallible;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{DistributedLockExt, LockRequest, RedisNode, Redlock, Reply};
use lock_testkit::{FaultProxy, ProxyFault, RedisServer};

use super::certificates::Authority;
use super::{CONNECT, node, server, url};
use crate::backend::{self, trusting};
use crate::support::{Act, FakeServer, apply, async_test, sleep};
use crate::support::{LONG, SHORT, acquire, eventually, keys, release, token, until_answered};

#[apply(async_test!)]
async fn a_lock_of_three_nodes_is_acquired_extended_and_released() {
    let authority = Authority::new();
    let servers = authority.server(&["127.0.0.1"]).start_many(3).unwrap();
    let locks = Redlock::builder()
        .nodes(servers.iter().map(|server| node(&authority, &url(server))))
        .node_timeout(10 * SHORT)
        .build()
        .unwrap();
    for _ in 0..3 {
        let request = LockRequest::new("invoice").max_wait(LONG);
        let guard = locks.lock(request).await.unwrap();
        assert!(locks.try_lock("invoice").await.unwrap().is_none());
        guard.extend(Duration::from_secs(60)).await.unwrap();
        guard.release().await.unwrap();
    }
    let is_empty = |server: &RedisServer| keys(server) == 0;
    eventually("all are released", || servers.iter().all(is_empty)).await;
}

#[apply(async_test!)]
async fn a_name_that_the_certificate_has_does_as_well_as_an_address() {
    let authority = Authority::new();
    let server = authority.server(&["localhost"]).start().unwrap();
    let url = format!("rediss://localhost:{}", server.tls_addr().unwrap().port());
    until_answered(&node(&authority, &url)).await;
}

/// A process of its own has the authority among its system's roots: the environment of this one is
/// shared with other tests.
#[apply(async_test!)]
async fn a_url_alone_trusts_the_systems_roots() {
    const THIS: &str = "tls::everyday::a_url_alone_trusts_the_systems_roots";
    const URL: &str = "LOCK_TLS_TEST_URL";
    if let Ok(url) = std::env::var(URL) {
        until_answered(&backend::node(&url, CONNECT)).await;
        return;
    }
    let authority = Authority::new();
    let server = server(&authority);
    let again = Command::new(std::env::current_exe().unwrap())
        .args([THIS, "--exact"])
        .env("SSL_CERT_FILE", authority.file())
        .env(URL, url(&server))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&again.stdout);
    assert!(
        again.status.success() && output.contains("1 passed"),
        "{output}"
    );
}

#[apply(async_test!)]
async fn sentinels_and_their_master_have_tls_each_of_its_own() {
    let master = RedisServer::start().unwrap();
    let authority = Authority::new();
    let sentinel = authority.server(&["127.0.0.1"]);
    let sentinel = sentinel.sentinel("myMaster", &master, 1).start().unwrap();
    let led = backend::node("redis://myMaster", CONNECT);
    let led = led.sentinels([node(&authority, &url(&sentinel))]);
    until_answered(&led.unwrap()).await;

    let authority = Authority::new();
    let master = server(&authority);
    let port = master.tls_addr().unwrap().port().to_string();
    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
    let answer: &'static str = answer.leak();
    let sentinel = FakeServer::start(move |_, _| Act::Answer(answer));
    let led = node(&authority, "rediss://myMaster");
    let led = led.sentinels([backend::node(&sentinel.url(), CONNECT)]);
    until_answered(&led.unwrap()).await;
}

#[apply(async_test!)]
async fn the_node_comes_back_after_a_restart() {
    let authority = Authority::new();
    let server = server(&authority);
    let node = node(&authority, &url(&server));
    for _ in 0..3 {
        until_answered(&node).await;
        server.restart().unwrap();
    }
    until_answered(&node).await;
}

#[apply(async_test!)]
async fn a_connection_that_the_server_closes_while_nobody_calls_costs_no_call() {
    let authority = Authority::new();
    let server = server(&authority);
    let node = node(&authority, &url(&server));
    for _ in 0..3 {
        let reply = node.execute(&release("k", token()), LONG).await;
        assert_eq!(reply.unwrap(), Reply::Int(0));
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
        sleep(Duration::from_millis(300)).await;
    }
}

#[apply(async_test!)]
async fn a_half_open_connection_is_replaced() {
    let authority = Authority::new();
    let server = server(&authority);
    let proxy = FaultProxy::start(server.tls_addr().unwrap()).unwrap();
    let node = node(&authority, &format!("rediss://{}", proxy.addr()));
    until_answered(&node).await;
    proxy.set_fault(ProxyFault::HalfOpen);
    for _ in 0..3 {
        let call = node.execute(&acquire("k", token()), SHORT).await;
        assert_eq!(call.unwrap_err().to_string(), "no answer in 100 ms");
    }
    until_answered(&node).await;
    assert!(proxy.accepted() >= 2);
}

#[apply(async_test!)]
async fn a_server_that_asks_for_a_client_certificate_is_shown_one() {
    let authority = Authority::new();
    let server = authority
        .server(&["127.0.0.1"])
        .arg("--tls-auth-clients", "yes")
        .start()
        .unwrap();
    let client = authority.client();
    let node = trusting(&url(&server), CONNECT, &authority.pem(), Some(&client));
    until_answered(&node).await;
    let shown = format!("{node:?}");
    assert!(
        !shown.contains("PRIVATE") && !shown.contains("CERT"),
        "{shown}"
    );
}

#[apply(async_test!)]
async fn certificates_are_asked_for_at_each_connect_and_an_expired_one_is_told() {
    let authority = Authority::new();
    let server = authority
        .server(&["127.0.0.1"])
        .arg("--tls-auth-clients", "yes")
        .start()
        .unwrap();
    let shown = Arc::new(Mutex::new(authority.client()));
    let (ca, next) = (authority.pem(), Arc::clone(&shown));
    let node = backend::node(&url(&server), CONNECT).tls_at_connect(move || {
        let tls = backend::tls(&ca, Some(&next.lock().unwrap()));
        async move { Ok::<_, Infallible>(tls) }
    });
    until_answered(&node).await;

    *shown.lock().unwrap() = authority.expired_client();
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).ok();
    let is_told = async || {
        let error = node.execute(&acquire("k", token()), LONG).await;
        error.is_err_and(|error| super::chain(&error).to_lowercase().contains("expired"))
    };
    let mut tries = 0;
    while !is_told().await {
        tries += 1;
        assert!(tries < 100, "the expired certificate is not told");
        sleep(Duration::from_millis(20)).await;
    }

    *shown.lock().unwrap() = authority.client();
    until_answered(&node).await;
}

#[apply(async_test!)]
async fn a_password_works_and_a_wrong_one_is_told() {
    let authority = Authority::new();
    let server = authority.server(&["127.0.0.1"]);
    let server = server.arg("--requirepass", "right").start().unwrap();
    for protocol in ["resp2", "resp3"] {
        let with = |password: &str| {
            let addr = server.tls_addr().unwrap();
            node(
                &authority,
                &format!("rediss://:{password}@{addr}/?protocol={protocol}"),
            )
        };
        until_answered(&with("right")).await;
        let error = super::error_of(&with("wrong")).await;
        assert!(super::chain(&error).contains("WRONGPASS"), "{error:?}");
    }
}
