//! smol.

use std::future::Future;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use smol::Timer;
use smol::io::{AsyncBufReadExt, BufReader};
pub(crate) use smol::process::{Child, ChildStdout, Command};

pub(crate) fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(smol::block_on(future))
}

pub(crate) async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// `None` if the future takes longer.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let future = async { Some(future.await) };
    let timer = async {
        sleep(limit).await;
        None
    };
    smol::future::or(future, timer).await
}

pub(crate) fn lines(output: ChildStdout) -> BoxStream<'static, io::Result<String>> {
    BufReader::new(output).lines().boxed()
}

pub(crate) async fn end_of(child: &mut Child) -> io::Result<ExitStatus> {
    child.status().await
}

/// Tasks that end when this is dropped.
pub(crate) struct Tasks<T>(Vec<smol::Task<T>>);

impl<T: Send + 'static> Tasks<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.0.push(smol::spawn(task));
    }
}
