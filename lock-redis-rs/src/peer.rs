//! Asks a server that does not understand us whether it speaks TLS, or plain text.

use std::io;
use std::pin::pin;

use futures::future::{Either, select};
use lock_core::backend::{Protocol, ProtocolProbe};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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

/// Asks, over a connection of its own, whether the server speaks this protocol.
pub(crate) async fn expects<S>(
    probe: &ProtocolProbe,
    protocol: Protocol,
    connect: impl Future<Output = Option<S>>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ask = |question: Vec<u8>| async move {
        let stream = connect.await.ok_or(io::ErrorKind::NotConnected)?;
        ask(stream, &question).await
    };
    probe.expects(protocol, ask).await
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
