//! One connection and its task.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lock_core::node::Operation;
use lock_core::{Command, NodeError};
use lock_testkit::conformance::node::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::bug::Bug;
use crate::wire::{Line, encode, take};

/// How long a connection lives on when nobody calls on it any more.
const LINGER: Duration = Duration::from_secs(5);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where to connect to, and how.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) addr: SocketAddr,
    pub(crate) password: Option<&'static str>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) bug: Bug,
}

type Request = (Vec<u8>, oneshot::Sender<Line>);

/// A connection. It closes when the last handle is gone and all replies have come.
#[derive(Debug)]
pub(crate) struct Link {
    requests: mpsc::UnboundedSender<Request>,
    task: AbortHandle,
    /// Calls in a row that got no answer.
    pub(crate) silent: AtomicU32,
    pub(crate) closed: AtomicBool,
    doubts: Mutex<Doubts>,
}

#[derive(Debug, Default)]
struct Doubts {
    undos: Vec<Operation>,
    replaced: bool,
}

impl Link {
    pub(crate) async fn open(settings: Settings) -> Result<Self, NodeError> {
        let bug = settings.bug;
        let opened = match timeout(CONNECT_TIMEOUT, connect(&settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        let stream = opened.map_err(|error| match (bug, settings.password) {
            (Bug::SwallowsCause, _) => NodeError::not_sent("cannot connect"),
            (Bug::PasswordInErrors, Some(password)) => {
                NodeError::not_sent(format!("cannot connect with {password}")).with_source(error)
            }
            _ => NodeError::not_sent("cannot connect").with_source(error),
        })?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let task = tokio::spawn(run(stream, receiver, bug));
        Ok(Self {
            requests,
            task: task.abort_handle(),
            silent: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            doubts: Mutex::default(),
        })
    }

    pub(crate) fn send(&self, words: Vec<u8>) -> oneshot::Receiver<Line> {
        let (reply, receiver) = oneshot::channel();
        // If the task has ended, so has the receiver.
        self.requests.send((words, reply)).ok();
        receiver
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed() && !self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.task.abort();
    }

    /// A call ended in doubt.
    pub(crate) fn given_up(&self, operation: &Operation) {
        let Some(undo) = operation.undo() else { return };
        let mut doubts = self.doubts.lock().unwrap();
        if doubts.replaced {
            drop(self.send(words(&Command::from(undo).with_source())));
        } else {
            doubts.undos.push(undo);
        }
    }

    /// No call will come any more: doubtful acquires are undone.
    pub(crate) fn replace(&self) -> AbortHandle {
        let mut doubts = self.doubts.lock().unwrap();
        doubts.replaced = true;
        for undo in doubts.undos.drain(..) {
            drop(self.send(words(&Command::from(undo).with_source())));
        }
        self.task.clone()
    }
}

pub(crate) fn words(command: &Command) -> Vec<u8> {
    encode(&command.args())
}

async fn connect(settings: &Settings) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(settings.addr).await?;
    let password = settings
        .password
        .filter(|_| settings.bug != Bug::SendsNoPassword);
    let login = match (settings.protocol, password) {
        (Some(Protocol::Resp3), Some(password)) => {
            encode(&["HELLO", "3", "AUTH", "default", password])
        }
        (Some(Protocol::Resp3), None) => encode(&["HELLO", "3"]),
        (_, Some(password)) => encode(&["AUTH", password]),
        (_, None) => return Ok(stream),
    };
    stream.write_all(&login).await?;
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(answer) = take(&mut bytes, settings.bug) {
            return answer.map(|_| stream).map_err(io::Error::other);
        }
    }
}

/// Carries requests out and replies back, in order.
async fn run(mut stream: TcpStream, mut requests: mpsc::UnboundedReceiver<Request>, bug: Bug) {
    let mut waiting: VecDeque<oneshot::Sender<Line>> = VecDeque::new();
    let mut bytes = Vec::new();
    let mut end = None;
    loop {
        let linger = end.unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            request = requests.recv(), if end.is_none() => match request {
                Some((words, reply)) => {
                    waiting.push_back(reply);
                    if stream.write_all(&words).await.is_err() {
                        return;
                    }
                }
                None => end = Some(Instant::now() + LINGER),
            },
            read = stream.read_buf(&mut bytes) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    while let Some(line) = take(&mut bytes, bug) {
                        if bug == Bug::ShiftsReplies {
                            waiting.retain(|reply| !reply.is_closed());
                        }
                        // Whoever has given up takes no reply.
                        waiting.pop_front().map(|reply| reply.send(line));
                    }
                }
            },
            () = sleep_until(linger), if end.is_some() => return,
        }
        if end.is_some() && waiting.is_empty() {
            return;
        }
    }
}
