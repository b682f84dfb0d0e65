//! What a server speaks that we do not understand: TLS, or Redis in plain text.
//!
//! A redis-server that expects TLS resets a connection that begins in plain text, without a word;
//! one that expects plain text waits for ever for the end of the line with which TLS begins. So
//! neither can be told from its answer, and another connection asks.

use std::io;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::address::Suspicion;
use crate::dial_error::DialError;
use crate::tls::TlsError;

/// Waits for a handshake of TLS. If it is not done when `patience` ends, or fails so that it may
/// be, the server is asked whether it expects plain text.
pub(crate) async fn secure<S>(
    handshake: impl Future<Output = Result<S, TlsError>>,
    patience: impl Future<Output = ()>,
    expects_plain_text: impl Future<Output = bool>,
) -> Result<S, DialError> {
    let handshake = pin!(handshake);
    let mut expects_plain_text = pin!(expects_plain_text);
    let shaken = match select(handshake, pin!(patience)).await {
        Either::Left((shaken, _)) => shaken,
        Either::Right(((), handshake)) => {
            match select(handshake, expects_plain_text.as_mut()).await {
                Either::Left((shaken, _)) => return Ok(shaken?),
                Either::Right((true, _)) => return Err(DialError::ExpectsPlainText(None)),
                Either::Right((false, handshake)) => return Ok(handshake.await?),
            }
        }
    };
    match shaken {
        Err(error) if error.may_be_plain_text() && expects_plain_text.await => {
            Err(DialError::ExpectsPlainText(Some(Box::new(error.into()))))
        }
        shaken => Ok(shaken?),
    }
}

/// Whether the server turns out to speak plain text on a connection of its own.
pub(crate) async fn expects_plain_text<S>(
    suspicion: &Suspicion,
    connect: impl Future<Output = Option<S>>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    confirm(suspicion, connect, b"PING\r\n", is_plain_text).await
}

/// Whether the server turns out to speak TLS on a connection of its own.
pub(crate) async fn expects_tls<S>(
    suspicion: &Suspicion,
    connect: impl Future<Output = Option<S>>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    confirm(suspicion, connect, &client_hello(), is_tls).await
}

/// Whether the answer to a question, on a connection of its own, begins as expected.
async fn confirm<S>(
    suspicion: &Suspicion,
    connect: impl Future<Output = Option<S>>,
    question: &[u8],
    is_it: fn([u8; 2]) -> bool,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let asks = async {
        match connect.await {
            Some(stream) => ask(stream, question).await.is_ok_and(is_it),
            None => false,
        }
    };
    suspicion.confirm(asks).await
}

/// A reply of Redis, be it an error.
fn is_plain_text([kind, _]: [u8; 2]) -> bool {
    matches!(kind, b'+' | b'-')
}

/// A record of TLS, be it an alert.
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

async fn ask<S>(mut stream: S, question: &[u8]) -> io::Result<[u8; 2]>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(question).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
