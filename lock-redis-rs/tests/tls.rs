//! Locks over TLS, by whichever library is switched on.

#![cfg(unix)]
#![cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

mod support;
#[path = "../../lock-testkit/tests/tls/mod.rs"]
mod tls;

use support::*;

/// Whose nodes are tested.
mod backend {
    use std::time::Duration;

    use lock_redis_rs::{RedisRsNode, Tls};

    use crate::tls::certificates::Certified;

    pub(crate) type Node = RedisRsNode;

    pub(crate) fn node(url: &str, connect_timeout: Duration) -> Node {
        RedisRsNode::new(url)
            .unwrap()
            .connect_timeout(connect_timeout)
    }

    pub(crate) fn trusting(
        url: &str,
        connect_timeout: Duration,
        ca: &str,
        client: Option<&Certified>,
    ) -> Node {
        node(url, connect_timeout).tls(tls(ca, client))
    }

    pub(crate) fn tls(ca: &str, client: Option<&Certified>) -> Tls {
        let tls = Tls::new().root_certificates(ca.as_bytes()).unwrap();
        match client {
            Some(Certified { certificate, key }) => tls
                .client_certificate(certificate.as_bytes(), key.as_bytes())
                .unwrap(),
            None => tls,
        }
    }
}

#[apply(async_test!)]
async fn a_client_that_asks_for_tls_takes_our_certificates() {
    use redis::{Client, ConnectionAddr, IntoConnectionInfo};

    let authority = tls::certificates::Authority::new();
    let server = authority.server(&["127.0.0.1"]).start().unwrap();
    let addr = ConnectionAddr::TcpTls {
        host: "127.0.0.1".to_owned(),
        port: server.tls_addr().unwrap().port(),
        insecure: false,
        tls_params: None,
    };
    let info = "redis://127.0.0.1".into_connection_info().unwrap();
    let client = Client::open(info.set_addr(addr)).unwrap();
    let roots = lock_redis_rs::Tls::new().root_certificates(authority.pem().as_bytes());
    let node = lock_redis_rs::RedisRsNode::from_client(client).tls(roots.unwrap());
    until_answered(&node).await;
}
