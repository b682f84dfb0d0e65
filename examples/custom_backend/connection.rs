//! The task that owns the connection of a node, and makes it anew when it breaks.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Command, NodeError};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::{encode, read};
use crate::node::Call;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// While the server is down, calls fail at once for that long, and then it is tried again (N7).
const PAUSE: Duration = Duration::from_millis(100);

/// A connection on which a call has waited for that long, and nothing came, is taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// The calls that were sent and have no answer yet, in order, each with the time of its sending.
type Sent = Mutex<VecDeque<(Call, Instant)>>;

/// Serves calls until the node is dropped.
pub(crate) async fn serve(addr: String, mut calls: Receiver<Call>) {
    while let Some(call) = calls.recv().await {
        match connect(&addr).await {
            Ok(stream) => exchange(stream, call, &mut calls).await,
            Err(error) => fail_fast(&error, call, &mut calls).await,
        }
    }
}

async fn connect(addr: &str) -> io::Result<TcpStream> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(addr)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Answers calls that surely were not sent, for as long as the pause lasts.
async fn fail_fast(error: &io::Error, first: Call, calls: &mut Receiver<Call>) {
    let refuse = |call: Call| {
        call.answer(Err(
            NodeError::not_sent("cannot connect").with_source(again(error))
        ));
    };
    refuse(first);
    let end = Instant::now() + PAUSE;
    while let Ok(Some(call)) = timeout_at(end, calls.recv()).await {
        refuse(call);
    }
}

/// Sends calls and gives answers until the connection breaks.
async fn exchange(mut stream: TcpStream, first: Call, calls: &mut Receiver<Call>) {
    let sent = Sent::default();
    let (reader, mut writer) = stream.split();
    let mut is_between_commands = true;
    let error = tokio::select! {
        error = receive(BufReader::new(reader), &sent) => error,
        error = send(&mut writer, first, calls, &sent, &mut is_between_commands) => error,
        error = watch(&sent) => error,
    };
    let sent = std::mem::take(&mut *locked(&sent));
    if is_between_commands {
        // A server that is only slow will run what it was sent, and then these (N12).
        let undo = sent.iter().filter_map(|(call, _)| undo(&call.command));
        // If it takes no more bytes, the keys end with their ttl.
        writer.try_write(&undo.flatten().collect::<Vec<_>>()).ok();
    }
    for (call, _) in sent {
        // Each may have taken effect: only the kind `NotSent` would say otherwise (N3).
        call.answer(Err(
            NodeError::connection("connection lost").with_source(again(&error))
        ));
    }
}

/// Sends calls in the order in which they come, until that fails.
async fn send(
    writer: &mut WriteHalf<'_>,
    first: Call,
    calls: &mut Receiver<Call>,
    sent: &Sent,
    is_between_commands: &mut bool,
) -> io::Error {
    let mut next = Some(first);
    while let Some(call) = next {
        // If its caller has given up by now, it never leaves (N5).
        if !call.is_abandoned() {
            let bytes = encode(&call.command.args());
            locked(sent).push_back((call, Instant::now()));
            *is_between_commands = false;
            if let Err(error) = writer.write_all(&bytes).await {
                return error;
            }
            *is_between_commands = true;
        }
        next = calls.recv().await;
    }
    // The node was dropped, and no call can come any more: answers may.
    pending().await
}

/// Gives each reply to the oldest call without one, until reading fails.
async fn receive(mut reader: BufReader<ReadHalf<'_>>, sent: &Sent) -> io::Error {
    loop {
        let answer = match read(&mut reader).await {
            Ok(answer) => answer.map_err(NodeError::server),
            Err(error) => return error,
        };
        match locked(sent).pop_front() {
            Some((call, _)) => call.answer(answer),
            None => return io::Error::other("a reply to nothing"),
        }
    }
}

/// Ends when a call has waited for too long: a connection may be dead without being closed.
async fn watch(sent: &Sent) -> io::Error {
    loop {
        sleep(DEAD_AFTER / 4).await;
        let oldest = locked(sent).front().map(|(_, at)| *at);
        if oldest.is_some_and(|at| at.elapsed() > DEAD_AFTER) {
            return io::Error::new(io::ErrorKind::TimedOut, "nothing came for too long");
        }
    }
}

/// What undoes an acquire of unknown fate, as bytes.
fn undo(command: &Command) -> Option<Vec<u8>> {
    let release = Command::from(command.operation().undo()?);
    Some(encode(&release.with_source().args()))
}

/// The same error once more, since each call gets one and it cannot be cloned.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
