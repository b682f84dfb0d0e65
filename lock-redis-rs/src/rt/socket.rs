//! A connected socket, until redis-rs takes it.

use std::future::Future;
use std::pin::Pin;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult};

/// A connected socket, of the kind that its runtime reads and writes.
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

    /// Shakes hands with the server.
    pub(crate) async fn greet(
        self,
        settings: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<(MultiplexedConnection, Driver)> {
        // The same for each type of stream, whose trait only tokio, and not each feature, names.
        macro_rules! over {
            ($stream:ident) => {{
                let greeting = MultiplexedConnection::new_with_config(settings, $stream, config);
                let (connection, driver) = greeting.await?;
                Ok((connection, Box::pin(driver)))
            }};
        }
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(stream) => over!(stream),
            #[cfg(all(feature = "tokio", unix))]
            Self::TokioUnix(stream) => over!(stream),
            #[cfg(feature = "smol")]
            Self::Smol(stream) => over!(stream),
            #[cfg(all(feature = "smol", unix))]
            Self::SmolUnix(stream) => over!(stream),
        }
    }
}
