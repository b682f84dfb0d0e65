//! Sockets, by the runtime that serves the caller.
//!
//! A caller on tokio is served by tokio (feature `tokio`), all others by smol's reactor (feature
//! `smol`), which works with any executor. No other module knows which of them is on, but for what
//! bb8 needs, which is tokio.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lock_core::NodeError;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(feature = "smol")]
use tokio_util::compat::FuturesAsyncReadCompatExt;

#[cfg(feature = "smol")]
use smol::net as smol_net;
#[cfg(feature = "tokio")]
use tokio::net as tokio_net;

/// When a quiet connection is probed, and how often from then on: soon enough that a peer that
/// vanished is noticed between two ticks of most jobs, rarely enough to cost nothing.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// How long bytes may stay without a sign from the peer's kernel before ours gives up. It is
/// longer than a replaced connection lingers, whose releases are to arrive if they can.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

cfg_if::cfg_if! {
    if #[cfg(feature = "tokio")] {
        // Tokio would let a task that has done much wait before it sends, and a later call of
        // another task could overtake it (rule N12).
        pub(crate) use tokio::task::coop::unconstrained;

        /// Returns whether the caller's runtime runs the task that was woken last before all others, as
        /// tokio's multi-thread runtime does.
        pub(crate) fn runs_the_last_woken_first() -> bool {
            use tokio::runtime::{Handle, RuntimeFlavor};

            let flavor = |handle: Handle| handle.runtime_flavor();
            Handle::try_current().map(flavor).ok() == Some(RuntimeFlavor::MultiThread)
        }
    } else {
        /// Nothing holds a task back here, unless it runs on tokio, which a build without the
        /// feature `tokio` is not for: the crate docs say so.
        pub(crate) fn unconstrained<F>(future: F) -> F {
            future
        }

        /// Nothing but tokio does that.
        pub(crate) fn runs_the_last_woken_first() -> bool {
            false
        }
    }
}

/// Whose sockets are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    #[cfg(feature = "tokio")]
    Tokio,
    #[cfg(feature = "smol")]
    Smol,
}

/// What redis-rs reads from and writes to: by tokio's traits, which come without a runtime.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connected socket.
pub(crate) type Socket = Box<dyn Stream>;

impl Network {
    /// The one that serves the caller.
    pub(crate) fn current() -> Result<Self, NodeError> {
        #[cfg(feature = "tokio")]
        if tokio::runtime::Handle::try_current().is_ok() {
            return Ok(Self::Tokio);
        }
        cfg_if::cfg_if! {
            if #[cfg(feature = "smol")] {
                Ok(Self::Smol)
            } else {
                Err(NodeError::not_sent(
                    "needs a tokio runtime, or the feature `smol` of lock-redis-rs",
                ))
            }
        }
    }

    pub(crate) async fn connect_tcp(
        self,
        address: SocketAddr,
        settings: &TcpSettings,
    ) -> io::Result<Socket> {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio => Ok(Box::new(tokio_tcp(address, settings).await?)),
            #[cfg(feature = "smol")]
            Self::Smol => Ok(Box::new(smol_tcp(address, settings).await?.compat())),
        }
    }

    #[cfg(unix)]
    pub(crate) async fn connect_unix(self, path: &std::path::Path) -> io::Result<Socket> {
        Ok(match self {
            #[cfg(feature = "tokio")]
            Self::Tokio => Box::new(tokio_net::UnixStream::connect(path).await?),
            #[cfg(feature = "smol")]
            Self::Smol => Box::new(smol_net::unix::UnixStream::connect(path).await?.compat()),
        })
    }
}

#[cfg(feature = "tokio")]
async fn tokio_tcp(
    address: SocketAddr,
    settings: &TcpSettings,
) -> io::Result<tokio_net::TcpStream> {
    let stream = tokio_net::TcpStream::connect(address).await?;
    apply(settings, &(&stream).into())?;
    Ok(stream)
}

#[cfg(feature = "smol")]
async fn smol_tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<smol_net::TcpStream> {
    let stream = smol_net::TcpStream::connect(address).await?;
    apply(settings, &(&stream).into())?;
    Ok(stream)
}

/// What the user chose, and our own choice in place of the defaults of redis-rs.
///
/// TCP_NODELAY is on. Without it the kernel holds a small command back while an earlier one of the same
/// connection is not acknowledged: on a network a call that starts while others wait for their answers
/// is late by up to one round trip. redis-rs has it off by default, and its settings do not tell whether
/// a client chose that, so it is switched on for every client.
pub(crate) fn completed(settings: &TcpSettings) -> TcpSettings {
    let mut completed = settings.clone().set_nodelay(true);
    if completed.keepalive().is_none() {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY);
        completed = completed.set_keepalive(keepalive);
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    if completed.user_timeout().is_none() {
        completed = completed.set_user_timeout(UNACKNOWLEDGED);
    }
    completed
}

fn apply(settings: &TcpSettings, socket: &SockRef<'_>) -> io::Result<()> {
    let settings = completed(settings);
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_is_held_back_for_the_acknowledgement_of_another() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for settings in [
            TcpSettings::default(),
            TcpSettings::default().set_nodelay(false),
        ] {
            #[cfg(feature = "tokio")]
            {
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = runtime.enable_all().build().unwrap();
                let stream = runtime.block_on(tokio_tcp(address, &settings)).unwrap();
                assert!(stream.nodelay().unwrap());
            }
            #[cfg(feature = "smol")]
            {
                let stream = smol::block_on(smol_tcp(address, &settings)).unwrap();
                assert!(stream.nodelay().unwrap());
            }
        }
    }
}
