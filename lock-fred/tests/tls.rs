//! Locks over TLS, by whichever library is switched on.

#![cfg(unix)]
#![cfg(any(
    feature = "enable-native-tls",
    all(feature = "enable-rustls", not(feature = "enable-rustls-ring")),
    all(feature = "enable-rustls-ring", not(feature = "enable-rustls"))
))]
#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

mod support;
#[path = "../../lock-testkit/tests/tls/mod.rs"]
mod tls;

use lock_core::RedisNode;
use lock_core::node::NodeErrorKind;
use support::*;

/// Whose nodes are tested.
mod backend {
    use std::time::Duration;

    use fred::types::config::{Config, TlsConnector};
    use lock_fred::FredNode;

    use crate::tls::certificates::Certified;

    pub(crate) type Node = FredNode;

    pub(crate) fn node(url: &str, connect_timeout: Duration) -> Node {
        FredNode::new(url).unwrap().connect_timeout(connect_timeout)
    }

    pub(crate) fn trusting(
        url: &str,
        connect_timeout: Duration,
        ca: &str,
        client: Option<&Certified>,
    ) -> Node {
        let mut config = Config::from_url(url).unwrap();
        if url.contains("resp3") {
            config.version = fred::types::RespVersion::RESP3;
        }
        config.tls = Some(tls(ca, client).into());
        let node = FredNode::from_config(config).unwrap();
        node.connect_timeout(connect_timeout)
    }

    #[cfg(not(feature = "enable-native-tls"))]
    pub(crate) fn tls(ca: &str, client: Option<&Certified>) -> TlsConnector {
        use fred::rustls::pki_types::pem::PemObject;
        use fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
        use fred::rustls::{ClientConfig, RootCertStore};

        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(ca)).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match client {
            Some(client) => {
                let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
                let chain = vec![certificate(&client.certificate)];
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.into()
    }

    #[cfg(feature = "enable-native-tls")]
    pub(crate) fn tls(ca: &str, client: Option<&Certified>) -> TlsConnector {
        use fred::native_tls::{self, Certificate, Identity};

        let mut builder = native_tls::TlsConnector::builder();
        builder.disable_built_in_roots(true);
        builder.add_root_certificate(Certificate::from_pem(ca.as_bytes()).unwrap());
        if let Some(Certified { certificate, key }) = client {
            let identity = Identity::from_pkcs8(certificate.as_bytes(), key.as_bytes());
            builder.identity(identity.unwrap());
        }
        builder.try_into().unwrap()
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_spoken_to_in_plain_text() {
    let server = FakeServer::start_raw(|_, _| Act::Answer("+OK\r\n"));
    let url = server.url().replace("redis://", "rediss://:s3cr3t@");
    let node = backend::node(&url, SHORT);
    let error = node.execute(&acquire("k", token()), LONG).await;
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NotSent);
    assert!(server.received().is_empty());
}
