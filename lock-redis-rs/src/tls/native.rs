//! By what the system has: OpenSSL on Linux.

use std::error::Error;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_native_tls::native_tls::{self, Certificate};
use tokio_native_tls::{TlsConnector, TlsStream};

pub(crate) type Stream<S> = TlsStream<S>;
pub(super) type Connector = TlsConnector;
pub(super) type Roots = Vec<Certificate>;
pub(super) type Identity = native_tls::Identity;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A text may have several certificates, of which native-tls would read the first alone.
pub(super) fn roots(pem: &[u8]) -> Result<Roots> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = std::str::from_utf8(pem)?.split_inclusive(END);
    let blocks = blocks.filter_map(|block| block.find(BEGIN).map(|start| &block[start..]));
    let roots: Vec<_> = blocks
        .map(|block| Certificate::from_pem(block.as_bytes()))
        .collect::<std::result::Result<_, _>>()?;
    if roots.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(roots)
}

pub(super) fn identity(chain: &[u8], key: &[u8]) -> Result<Identity> {
    Ok(Identity::from_pkcs8(chain, key)?)
}

pub(super) fn connector(roots: Option<&Roots>, identity: Option<&Identity>) -> Result<Connector> {
    let mut builder = native_tls::TlsConnector::builder();
    if let Some(roots) = roots {
        builder.disable_built_in_roots(true);
        for root in roots {
            builder.add_root_certificate(root.clone());
        }
    }
    if let Some(identity) = identity {
        builder.identity(identity.clone());
    }
    Ok(builder.build()?.into())
}

pub(super) async fn handshake<S>(
    connector: &Connector,
    host: &str,
    stream: S,
) -> io::Result<Stream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let shaken = connector.connect(host, stream).await;
    shaken.map_err(io::Error::other)
}

/// Whether only a server that speaks TLS causes it. There are only words to go by.
pub(super) fn is_of_tls(error: &io::Error) -> bool {
    let text = error.to_string();
    text.contains("certificate") || text.contains("alert")
}
