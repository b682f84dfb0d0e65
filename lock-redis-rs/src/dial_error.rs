//! Why there is no connection.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use lock_core::NodeError;
use redis::RedisError;

use crate::convert::server_error_of;
use crate::tls::TlsError;

/// How far a connect has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Credentials or certificates are asked for.
    Asking,
    Connecting,
    SecuringTls,
    Greeting,
    /// redis-rs does all of it.
    Elsewhere,
}

/// Why there is no connection. Nothing was sent but the handshake.
#[derive(Debug)]
pub(crate) enum DialError {
    Io(io::Error),
    Redis(RedisError),
    /// The server hung up before it answered the handshake.
    HungUp(RedisError),
    /// What the server answered to the handshake.
    Answer(NodeError),
    Late(Stage, Duration),
    Tls(TlsError),
    /// It speaks plain text where we expect TLS; with what came of the attempt.
    ExpectsPlainText(Option<Box<DialError>>),
    /// The reverse.
    ExpectsTls(Box<DialError>),
}

/// What a call is told, unless the server has answered.
pub(crate) fn cannot_connect(cause: impl Into<Box<dyn Error + Send + Sync>>) -> NodeError {
    NodeError::not_sent("cannot connect").with_source(cause)
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<RedisError> for DialError {
    fn from(error: RedisError) -> Self {
        // With its code, which redis-rs does not always show.
        match server_error_of(error) {
            Ok(answer) => Self::Answer(answer),
            Err(error) => Self::Redis(error),
        }
    }
}

impl From<TlsError> for DialError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Redis(error) => error.fmt(f),
            Self::HungUp(error) => write!(
                f,
                "{error}: the server hung up at the handshake, as twemproxy does, which is not supported"
            ),
            Self::Answer(error) => error.fmt(f),
            Self::Late(Stage::Asking, within) => {
                write!(f, "no credentials or certificates in {within:?}")
            }
            Self::Late(Stage::Connecting, within) => write!(f, "not connected in {within:?}"),
            Self::Late(Stage::SecuringTls, within) => {
                write!(f, "connected, but no TLS handshake in {within:?}")
            }
            Self::Late(Stage::Greeting, within) => {
                write!(f, "connected, but no answer to the handshake in {within:?}")
            }
            Self::Late(Stage::Elsewhere, within) => {
                write!(f, "not connected in {within:?}, all handshakes included")
            }
            Self::Tls(error) => error.fmt(f),
            Self::ExpectsPlainText(_) => f.write_str(
                "the server does not speak TLS on this port: use redis://, or its port for TLS",
            ),
            Self::ExpectsTls(_) => {
                f.write_str("the server expects TLS on this port: use rediss://")
            }
        }
    }
}

impl Error for DialError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Tls(error) => error.source(),
            Self::ExpectsPlainText(Some(error)) | Self::ExpectsTls(error) => Some(error),
            // They are shown as they are.
            Self::Io(_) | Self::Redis(_) | Self::HungUp(_) | Self::Answer(_) => None,
            Self::Late(..) | Self::ExpectsPlainText(None) => None,
        }
    }
}
