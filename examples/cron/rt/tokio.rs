//! tokio.

use std::future::Future;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, try_unfold};
use tokio::io::{AsyncBufReadExt, BufReader};
pub(crate) use tokio::process::{Child, ChildStdout, Command};
pub(crate) use tokio::task::JoinSet as Tasks;
pub(crate) use tokio::time::sleep;

pub(crate) fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(tokio::runtime::Runtime::new()?.block_on(future))
}

/// `None` if the future takes longer.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

pub(crate) fn lines(output: ChildStdout) -> BoxStream<'static, io::Result<String>> {
    let lines = BufReader::new(output).lines();
    try_unfold(lines, async |mut lines| {
        let line = lines.next_line().await?;
        Ok(line.map(|line| (line, lines)))
    })
    .boxed()
}

pub(crate) async fn end_of(child: &mut Child) -> io::Result<ExitStatus> {
    child.wait().await
}
