//! A tokio runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::catch_unwind;

use lock_core::NodeError;
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep, sleep_until};

use super::{FAR, Socket, Task};

/// A runtime that may have ended.
#[derive(Clone, Debug)]
pub(crate) struct Tokio(Handle);

/// Whether the caller is in the context of any.
#[cfg(feature = "smol")]
pub(super) fn is_near() -> bool {
    Handle::try_current().is_ok()
}

impl Tokio {
    pub(super) fn current() -> Option<Self> {
        Handle::try_current().ok().map(Self)
    }

    pub(super) fn id(&self) -> Id {
        self.0.id()
    }

    pub(super) fn probe(&self) -> Result<(), NodeError> {
        // There is no way to ask whether a runtime has timers: tokio panics at the first one.
        match catch_unwind(|| drop(sleep(FAR))) {
            Ok(()) => Ok(()),
            Err(_) => Err(NodeError::not_sent(
                "needs a tokio runtime with its timers and IO enabled",
            )),
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task::Tokio(self.0.spawn(task))
    }

    pub(super) async fn sleep_until(&self, at: Instant) {
        sleep_until(at).await;
    }

    pub(super) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((host, port)).await?.collect())
    }

    pub(super) async fn connect_tcp(&self, address: SocketAddr) -> io::Result<Socket> {
        TcpStream::connect(address).await.map(Socket::Tokio)
    }

    #[cfg(unix)]
    pub(super) async fn connect_unix(&self, path: &std::path::Path) -> io::Result<Socket> {
        let stream = tokio::net::UnixStream::connect(path).await;
        stream.map(Socket::TokioUnix)
    }
}
