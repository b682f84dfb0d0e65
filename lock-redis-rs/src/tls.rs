//! TLS over any stream: what is trusted, and the handshake.
//!
//! redis-rs can do this too, but keeps the stream to itself: an idle connection that the server
//! closes would be noticed at the next call only, and no error would tell the network from TLS.

cfg_if::cfg_if! {
    if #[cfg(any(feature = "rustls", feature = "rustls-ring"))] {
        mod rustls;
        use self::rustls as library;
    } else {
        mod native;
        use self::native as library;
    }
}

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// What a node trusts, and what it shows of itself, when it connects by TLS.
///
/// A `rediss://` URL alone stands for [`Tls::new`]. See the [crate docs](crate#tls) for what the
/// server's certificate has to say.
///
/// ```no_run
/// use lock_redis_rs::{RedisRsNode, Tls};
///
/// # fn node() -> Result<RedisRsNode, Box<dyn std::error::Error>> {
/// let tls = Tls::new()
///     .root_certificates(&std::fs::read("ca.crt")?)?
///     .client_certificate(&std::fs::read("client.crt")?, &std::fs::read("client.key")?)?;
/// let node = RedisRsNode::new("rediss://redis-1.internal:6379")?.tls(tls);
/// # Ok(node)
/// # }
/// ```
///
/// Certificates are read once. Those that change are asked for by `RedisRsNode::tls_at_connect`.
#[derive(Clone, Default)]
pub struct Tls {
    roots: Option<library::Roots>,
    identity: Option<library::Identity>,
    /// Made at the first connect: only then are the system's roots read.
    connector: Arc<OnceLock<library::Connector>>,
}

impl Tls {
    /// The server's certificate has to be signed by one of the system's roots, and nothing is
    /// shown to the server.
    ///
    /// With rustls the roots are those in the files that OpenSSL would read; the variables
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificates, of which there may be several, in place of the system's roots.
    /// One that a server signed itself will do too, if it says that it may sign (rustls).
    ///
    /// # Errors
    ///
    /// The text is not PEM, or has no certificate in it.
    pub fn root_certificates(self, pem: &[u8]) -> Result<Self, InvalidCertificate> {
        let roots = library::roots(pem).map_err(InvalidCertificate::of("the root certificates"))?;
        Ok(Self {
            roots: Some(roots),
            connector: Arc::default(),
            ..self
        })
    }

    /// Shows this certificate to the server, with those that lead to a root behind it; the key is
    /// PKCS #8, for rustls PKCS #1 or SEC 1 too, and not encrypted.
    ///
    /// # Errors
    ///
    /// One of the texts is not PEM, or lacks what it should have. Whether the key belongs to the
    /// certificate may be seen at the first connect only.
    pub fn client_certificate(self, chain: &[u8], key: &[u8]) -> Result<Self, InvalidCertificate> {
        let identity = library::identity(chain, key)
            .map_err(InvalidCertificate::of("the client certificate or its key"))?;
        Ok(Self {
            identity: Some(identity),
            connector: Arc::default(),
            ..self
        })
    }

    /// Shakes hands with the server of that name.
    pub(crate) async fn handshake<S>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<library::Stream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = match self.connector.get() {
            Some(connector) => connector,
            None => {
                let made = library::connector(self.roots.as_ref(), self.identity.as_ref())
                    .map_err(TlsError::Setup)?;
                self.connector.get_or_init(|| made)
            }
        };
        library::handshake(connector, host, stream)
            .await
            .map_err(TlsError::Handshake)
    }

    /// What the server says where it breaks off behind the handshake, as it does when it misses the
    /// client's certificate. Who sends something before hearing that may not get to hear it.
    pub(crate) async fn objection<S>(&self, host: &str, stream: S) -> Option<TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stream = self.handshake(host, stream).await.ok()?;
        let error = stream.read_u8().await.err()?;
        library::is_of_tls(&error).then_some(TlsError::Handshake(error))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_roots", &self.roots.is_some())
            .field("has_identity", &self.identity.is_some())
            .finish()
    }
}

/// Certificates or a key that cannot be read, see [`Tls`]. It shows nothing of them.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {what}")]
pub struct InvalidCertificate {
    what: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl InvalidCertificate {
    fn of(what: &'static str) -> impl Fn(Box<dyn Error + Send + Sync>) -> Self {
        move |source| Self { what, source }
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("TLS cannot be set up")]
    Setup(#[source] Box<dyn Error + Send + Sync>),
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
}

impl TlsError {
    /// Whether a server that speaks no TLS may have caused it.
    pub(crate) fn may_be_plain_text(&self) -> bool {
        match self {
            Self::Setup(_) => false,
            Self::Handshake(error) => !library::is_of_tls(error),
        }
    }
}
