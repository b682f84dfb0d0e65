//! smol's global executor, with threads of its own, which never ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

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
        Task::Smol(Some(smol::spawn(task)))
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
