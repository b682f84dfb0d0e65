//! Diagnoses why connecting fails where one side expects TLS and the other plain text, or where they do
//! not agree about certificates.
//!
//! A redis-server that expects TLS resets a connection that begins in plain text, without a word;
//! one that expects plain text waits for ever for the end of the line with which TLS begins; and fred
//! hides what is wrong with a certificate. So a connection of its own asks.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::NodeError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::settings::Settings;

/// How long an answer stands: to ask costs a connection.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Asks whether the server speaks another protocol than it is spoken to, but not often.
#[derive(Debug, Default)]
pub(crate) struct ProtocolProbe {
    /// A connection came about once, so there is nothing to ask.
    dispelled: AtomicBool,
    /// When the server was asked last, and whether it speaks the other protocol.
    asked: Mutex<Option<(Instant, bool)>>,
}

impl ProtocolProbe {
    pub(crate) fn dispel(&self) {
        self.dispelled.store(true, Ordering::Relaxed);
    }

    /// Asks the server, unless that is known, or was asked a moment ago.
    async fn confirm(&self, ask: impl Future<Output = bool>) -> bool {
        if self.dispelled.load(Ordering::Relaxed) {
            return false;
        }
        let last = *self.asked();
        match last {
            Some((at, answer)) if at.elapsed() < ASKED_EVERY => answer,
            _ => {
                // Stands also if this is given up before there is an answer.
                *self.asked() = Some((Instant::now(), false));
                let answer = ask.await;
                *self.asked() = Some((Instant::now(), answer));
                answer
            }
        }
    }

    fn asked(&self) -> MutexGuard<'_, Option<(Instant, bool)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
            None => expects_plain_text(settings, probe)
                .await
                .then_some(Mismatch::ExpectsPlainText),
        }
    } else {
        let asks = async { is_answered_with(settings, &client_hello(), is_tls).await };
        let expects_tls = probe.confirm(asks).await;
        expects_tls.then_some(Mismatch::ExpectsTls)
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

/// Whether the server turns out to speak plain text on a connection of its own.
pub(crate) async fn expects_plain_text(settings: &Settings, probe: &ProtocolProbe) -> bool {
    let asks = async {
        let is_reply = |[kind, _]: [u8; 2]| matches!(kind, b'+' | b'-');
        is_answered_with(settings, b"PING\r\n", is_reply).await
    };
    probe.confirm(asks).await
}

fn is_tls([kind, version]: [u8; 2]) -> bool {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    matches!(kind, ALERT | HANDSHAKE) && version == 3
}

/// A hello of TLS 1.2, whole, but with no cipher that anybody would take.
fn client_hello() -> Vec<u8> {
    let mut hello = vec![
        22, 3, 1, 0, 45, // A record of 45 bytes,
        1, 0, 0, 41, // which is a hello of 41 bytes,
        3, 3, // for TLS 1.2,
    ];
    hello.extend([b'?'; 32]); // with a random of no use,
    hello.extend([
        0, // no session,
        0, 2, 0, 0, // the cipher `NULL_WITH_NULL_NULL`
        1, 0, // and no compression.
    ]);
    hello
}

async fn is_answered_with(
    settings: &Settings,
    question: &[u8],
    is_it: impl Fn([u8; 2]) -> bool,
) -> bool {
    let ask = async {
        let mut stream = connect(settings).await?;
        stream.write_all(question).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        io::Result::Ok(answer)
    };
    ask.await.is_ok_and(is_it)
}

async fn connect(settings: &Settings) -> io::Result<TcpStream> {
    match settings.host_and_port() {
        Some(address) => TcpStream::connect(address).await,
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
