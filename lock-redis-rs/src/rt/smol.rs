//! smol's global executor, with threads of its own, which never ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use lock_core::NodeError;
use smol::Timer;
use smol::net::{TcpStream, resolve};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::{Instant, Socket, Task};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Smol;

impl Smol {
    pub(super) fn probe(self) -> Result<(), NodeError> {
        Ok(())
    }

    pub(super) fn spawn(self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task::Smol(DetachedTask(Some(smol::spawn(task))))
    }

    pub(super) async fn sleep_until(self, at: Instant) {
        Timer::after(at.saturating_duration_since(Instant::now())).await;
    }

    pub(super) async fn look_up(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        resolve((host, port)).await
    }

    pub(super) async fn connect_tcp(self, address: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(address).await?;
        Ok(Socket::Smol(stream.compat()))
    }

    #[cfg(unix)]
    pub(super) async fn connect_unix(self, path: &std::path::Path) -> io::Result<Socket> {
        let stream = smol::net::unix::UnixStream::connect(path).await?;
        Ok(Socket::SmolUnix(stream.compat()))
    }
}

/// A task, which goes on when this handle is dropped: smol would end it.
///
/// It is `None` from its abort on.
#[derive(Debug)]
pub(crate) struct DetachedTask(Option<smol::Task<()>>);

impl DetachedTask {
    pub(super) fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(smol::Task::is_finished)
    }

    pub(super) fn abort(&mut self) {
        drop(self.0.take());
    }
}

impl Future for DetachedTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(task) => Pin::new(task).poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for DetachedTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }
}
