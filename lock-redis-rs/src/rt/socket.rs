//! A connected socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connected socket, of the kind that its runtime reads and writes. redis-rs does so by tokio's
/// traits, which come without a runtime.
#[derive(Debug)]
pub(crate) enum Socket {
    #[cfg(feature = "tokio")]
    Tokio(tokio::net::TcpStream),
    #[cfg(all(feature = "tokio", unix))]
    TokioUnix(tokio::net::UnixStream),
    #[cfg(feature = "smol")]
    Smol(tokio_util::compat::Compat<smol::net::TcpStream>),
    #[cfg(all(feature = "smol", unix))]
    SmolUnix(tokio_util::compat::Compat<smol::net::unix::UnixStream>),
}

/// What carries bytes between a socket and redis-rs's queue.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does the same with whichever socket it is.
macro_rules! on_each {
    ($socket:expr, $one:ident => $what:expr) => {
        match $socket {
            #[cfg(feature = "tokio")]
            Socket::Tokio($one) => $what,
            #[cfg(all(feature = "tokio", unix))]
            Socket::TokioUnix($one) => $what,
            #[cfg(feature = "smol")]
            Socket::Smol($one) => $what,
            #[cfg(all(feature = "smol", unix))]
            Socket::SmolUnix($one) => $what,
        }
    };
}

impl Socket {
    /// The socket itself, to set its options.
    pub(crate) fn as_ref(&self) -> SockRef<'_> {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(stream) => stream.into(),
            #[cfg(all(feature = "tokio", unix))]
            Self::TokioUnix(stream) => stream.into(),
            #[cfg(feature = "smol")]
            Self::Smol(stream) => stream.get_ref().into(),
            #[cfg(all(feature = "smol", unix))]
            Self::SmolUnix(stream) => stream.get_ref().into(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_each!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        on_each!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
