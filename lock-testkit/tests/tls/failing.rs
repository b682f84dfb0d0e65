//! TLS that fails, and says why.

use std::net::TcpListener;

use lock_core::RedisNode;
use lock_core::node::NodeErrorKind;
use lock_testkit::RedisServer;

use super::certificates::Authority;
use super::{CONNECT, chain, error_of, server, url};
use crate::backend::{self, trusting};
use crate::support::{SHORT, until_answered};
use crate::support::{apply, async_test};

/// Asserts that nothing was sent, and that the text of the error has one of these words.
async fn fails_with(node: &impl RedisNode, words: &[&str]) {
    let error = error_of(node).await;
    let text = chain(&error);
    assert_eq!(error.kind(), NodeErrorKind::NotSent, "{text}");
    assert!(words.iter().any(|words| text.contains(words)), "{text}");
    // It fails because it was told so, not because time was over.
    assert!(!text.contains("in 4s"), "{text}");
}

#[apply(async_test!)]
async fn a_server_without_tls_says_so_before_the_connect_timeout() {
    let server = RedisServer::start().unwrap();
    let node = backend::node(&format!("rediss://{}", server.addr()), CONNECT);
    fails_with(&node, &["does not speak TLS"]).await;
}

#[apply(async_test!)]
async fn a_server_without_tls_that_asks_for_a_password_is_known_too() {
    let server = RedisServer::builder().arg("--requirepass", "p");
    let server = server.start().unwrap();
    let node = backend::node(&format!("rediss://:p@{}", server.addr()), CONNECT);
    fails_with(&node, &["does not speak TLS"]).await;
}

#[apply(async_test!)]
async fn a_server_with_tls_that_is_spoken_to_in_plain_text_says_so() {
    let authority = Authority::new();
    let server = server(&authority);
    for protocol in ["resp2", "resp3"] {
        let addr = server.tls_addr().unwrap();
        let url = format!("redis://{addr}/?protocol={protocol}");
        fails_with(&backend::node(&url, CONNECT), &["use rediss://"]).await;
    }
}

#[apply(async_test!)]
async fn a_server_that_stays_silent_is_given_up_at_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let error = error_of(&backend::node(&url, SHORT)).await;
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let text = chain(&error);
    let words = ["no TLS handshake in 100ms", "not connected in 100ms"];
    assert!(words.iter().any(|words| text.contains(words)), "{text}");
}

#[apply(async_test!)]
async fn a_certificate_of_somebody_unknown_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority);
    let untrusted = ["UnknownIssuer", "self-signed", "certificate verify failed"];
    fails_with(&backend::node(&url(&server), CONNECT), &untrusted).await;
    let node = trusting(&url(&server), CONNECT, &other.pem(), None);
    fails_with(
        &node,
        &[
            "UnknownIssuer",
            "BadSignature",
            "unable to get",
            "signature failure",
            "certificate verify failed",
        ],
    )
    .await;
}

#[apply(async_test!)]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let server = authority.server(&["redis-1.internal"]).start().unwrap();
    let node = trusting(&url(&server), CONNECT, &authority.pem(), None);
    fails_with(&node, &["not valid for name", "IP address mismatch"]).await;
    let url = format!("rediss://localhost:{}", server.tls_addr().unwrap().port());
    let node = trusting(&url, CONNECT, &authority.pem(), None);
    fails_with(
        &node,
        &[
            "not valid for name",
            "hostname mismatch",
            "Hostname mismatch",
        ],
    )
    .await;
}

#[apply(async_test!)]
async fn a_certificate_of_the_past_or_of_the_future_is_refused() {
    let authority = Authority::new();
    for (years, words) in [((2001, 2002), "expired"), ((2100, 2101), "not yet valid")] {
        let server = authority.server_of_years(years.0, years.1).start().unwrap();
        let node = trusting(&url(&server), CONNECT, &authority.pem(), None);
        fails_with(
            &node,
            &[words, &words.replace("not yet valid", "not valid yet")],
        )
        .await;
    }
}

#[apply(async_test!)]
async fn a_server_that_asks_for_a_client_certificate_is_known_by_its_alert() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.server(&["127.0.0.1"]);
    let server = server.arg("--tls-auth-clients", "yes").start().unwrap();
    // Not once by chance.
    for _ in 0..10 {
        let node = trusting(&url(&server), CONNECT, &authority.pem(), None);
        fails_with(&node, &["certificate required", "CertificateRequired"]).await;
        let client = other.client();
        let node = trusting(&url(&server), CONNECT, &authority.pem(), Some(&client));
        fails_with(
            &node,
            &["unknown ca", "UnknownCA", "decrypt error", "DecryptError"],
        )
        .await;
    }
}

#[apply(async_test!)]
async fn a_server_that_is_mended_is_connected_to() {
    let authority = Authority::new();
    let server = server(&authority);
    let node = trusting(&url(&server), CONNECT, &authority.pem(), None);
    server.kill().unwrap();
    fails_with(&node, &["refused"]).await;
    server.restart().unwrap();
    until_answered(&node).await;
}
