//! Diagnoses why connecting fails where one side expects TLS and the other plain text, or where they do
//! not agree about certificates.
//!
//! A redis-server that expects TLS resets a connection that begins in plain text, without a word;
//! one that expects plain text waits for ever for the end of the line with which TLS begins; and fred
//! hides what is wrong with a certificate. So a connection of its own asks.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use lock_core::NodeError;
use lock_core::backend::{Protocol, ProtocolProbe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::settings::Settings;

/// What the two sides do not agree about.
#[derive(Debug)]
enum Mismatch {
    ExpectsPlainText,
    ExpectsTls,
    Tls(io::Error),
}

/// A mismatch, and the error of fred that led to it.
#[derive(Debug)]
struct Diagnosis {
    mismatch: Mismatch,
    error: Option<NodeError>,
}

/// The error, or a better one in its place.
pub(crate) async fn diagnose(
    settings: &Settings,
    probe: &ProtocolProbe,
    error: NodeError,
) -> NodeError {
    let mismatch = if settings.uses_tls() {
        match objection(settings).await {
            Some(error) => Some(Mismatch::Tls(error)),
            None => expects(settings, probe, Protocol::PlainText)
                .await
                .then_some(Mismatch::ExpectsPlainText),
        }
    } else {
        expects(settings, probe, Protocol::Tls)
            .await
            .then_some(Mismatch::ExpectsTls)
    };
    match mismatch {
        Some(mismatch) => Diagnosis::of(mismatch, Some(error)),
        None => error,
    }
}

/// What to say of a server that is spoken to in TLS and expects plain text.
pub(crate) fn no_tls() -> NodeError {
    Diagnosis::of(Mismatch::ExpectsPlainText, None)
}

/// Asks, over a connection of its own, whether the server speaks this protocol.
pub(crate) async fn expects(
    settings: &Settings,
    probe: &ProtocolProbe,
    protocol: Protocol,
) -> bool {
    let ask = |question: Vec<u8>| async move {
        let mut stream = connect(settings).await?;
        stream.write_all(&question).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    probe.expects(protocol, ask).await
}

async fn connect(settings: &Settings) -> io::Result<TcpStream> {
    match settings.host_and_port() {
        Some((host, port)) => {
            let connect = TcpStream::connect::<SocketAddr>;
            settings.addresses.connect(host, port, connect).await
        }
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// What is wrong with a certificate, the server's or the client's. The server says the latter behind
/// the handshake, and a client that sends something first may not get to hear it.
async fn objection(settings: &Settings) -> Option<io::Error> {
    let stream = connect(settings).await.ok()?;
    let (host, _port) = settings.host_and_port()?;
    let error = shake_hands_and_read(settings, host, stream).await.err()?;
    let text = error.to_string();
    (text.contains("certificate") || text.contains("alert")).then_some(error)
}

#[cfg(any(
    feature = "enable-rustls",
    feature = "enable-rustls-ring",
    feature = "enable-native-tls"
))]
async fn shake_hands_and_read(
    settings: &Settings,
    host: &str,
    stream: TcpStream,
) -> io::Result<()> {
    use fred::types::config::TlsConnector;

    match settings.tls_connector() {
        #[cfg(any(feature = "enable-rustls", feature = "enable-rustls-ring"))]
        Some(TlsConnector::Rustls(connector)) => {
            let name = fred::rustls::pki_types::ServerName::try_from(host.to_owned());
            let name = name.map_err(io::Error::other)?;
            connector.connect(name, stream).await?.read_u8().await?;
        }
        #[cfg(feature = "enable-native-tls")]
        Some(TlsConnector::Native(connector)) => {
            let stream = connector.connect(host, stream).await;
            stream.map_err(io::Error::other)?.read_u8().await?;
        }
        None => {}
    }
    Ok(())
}

#[cfg(not(any(
    feature = "enable-rustls",
    feature = "enable-rustls-ring",
    feature = "enable-native-tls"
)))]
async fn shake_hands_and_read(_: &Settings, _: &str, _: TcpStream) -> io::Result<()> {
    Ok(())
}

impl Diagnosis {
    fn of(mismatch: Mismatch, error: Option<NodeError>) -> NodeError {
        NodeError::not_sent("cannot connect").with_source(Self { mismatch, error })
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mismatch {
            Mismatch::ExpectsPlainText => {
                "the server does not speak TLS on this port: use redis://, or its port for TLS"
            }
            Mismatch::ExpectsTls => "the server expects TLS on this port: use rediss://",
            Mismatch::Tls(_) => "the TLS handshake failed",
        })
    }
}

impl Error for Diagnosis {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.mismatch {
            Mismatch::Tls(error) => Some(error),
            // Its own text is that of the error around this one.
            Mismatch::ExpectsPlainText | Mismatch::ExpectsTls => self.error.as_ref()?.source(),
        }
    }
}
