//! By rustls.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

pub(crate) type Stream<S> = TlsStream<S>;
pub(super) type Connector = TlsConnector;
pub(super) type Roots = Arc<RootCertStore>;
pub(super) type Identity = Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(super) fn roots(pem: &[u8]) -> Result<Roots> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

pub(super) fn identity(chain: &[u8], key: &[u8]) -> Result<Identity> {
    Ok(Arc::new((
        certificates(chain)?,
        PrivateKeyDer::from_pem_slice(key)?,
    )))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<_, _>>()?;
    if certificates.is_empty() {
        return Err("there is no certificate in it".into());
    }
    Ok(certificates)
}

pub(super) fn connector(roots: Option<&Roots>, identity: Option<&Identity>) -> Result<Connector> {
    let roots = match roots {
        Some(roots) => Arc::clone(roots),
        None => system_roots()?,
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match identity.map(|identity| &**identity) {
        Some((chain, key)) => config.with_client_auth_cert(chain.clone(), key.clone_key())?,
        None => config.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The one that the process has chosen, or that of our feature. rustls itself would panic if the
/// features of other crates left it several to choose from.
fn provider() -> Arc<CryptoProvider> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Arc::clone(provider);
    }
    cfg_if::cfg_if! {
        if #[cfg(feature = "rustls")] {
            use tokio_rustls::rustls::crypto::aws_lc_rs as cryptography;
        } else {
            use tokio_rustls::rustls::crypto::ring as cryptography;
        }
    }
    Arc::new(cryptography::default_provider())
}

fn system_roots() -> Result<Roots> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have roots of old that nobody can read any more: the others will do.
    let (_added, _ignored) = roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(Arc::new(roots));
    }
    Err(match found.errors.pop() {
        Some(error) => error.into(),
        None => "this system has no root certificates: install them (on Debian, the package \
                 `ca-certificates`), or name your own with `Tls::root_certificates`"
            .into(),
    })
}

pub(super) async fn handshake<S>(
    connector: &Connector,
    host: &str,
    stream: S,
) -> io::Result<Stream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    connector.connect(name, stream).await
}

/// Whether only a server that speaks TLS causes it.
pub(super) fn is_of_tls(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(
        error,
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_))
    )
}
