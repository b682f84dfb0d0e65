//! What the toy connects and sends with: the client under its keeper of connections.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::backend::{Client, Connection, Opened};
use lock_core::node::Operation;
use lock_core::{Command, NodeError, Reply};
use lock_testkit::conformance::node::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::bug::Bug;
use crate::wire::{Line, encode, take};

const MINUTE: Duration = Duration::from_secs(60);

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) addr: SocketAddr,
    pub(crate) label: String,
    pub(crate) password: Option<&'static str>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) bug: Bug,
}

pub(crate) struct ToyClient {
    settings: Settings,
    was_connected: AtomicBool,
    /// The last connection, and when connecting failed, for bugs that remember them.
    kept: Mutex<Option<Wire>>,
    failed: Mutex<Option<(Instant, NodeError)>>,
}

impl ToyClient {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            was_connected: AtomicBool::new(false),
            kept: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn was_connected(&self) -> bool {
        self.was_connected.load(Ordering::Relaxed)
    }

    async fn open(&self) -> Result<TcpStream, NodeError> {
        if let Some((since, error)) = &*self.failed.lock().unwrap()
            && since.elapsed() < MINUTE
        {
            return Err(error.clone());
        }
        loop {
            let Settings { bug, password, .. } = self.settings;
            let error = match (connect(&self.settings).await, bug, password) {
                (Ok(stream), ..) => return Ok(stream),
                (Err(_), Bug::WaitsForServer, _) => {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                }
                (Err(_), Bug::SwallowsCause, _) => NodeError::not_sent("cannot connect"),
                (Err(error), Bug::PasswordInErrors, Some(password)) => {
                    let text = format!("cannot connect with {password}");
                    NodeError::not_sent(text).with_source(error)
                }
                (Err(error), ..) => NodeError::not_sent("cannot connect").with_source(error),
            };
            if bug == Bug::ReconnectsLate {
                *self.failed.lock().unwrap() = Some((Instant::now(), error.clone()));
            }
            return Err(error);
        }
    }
}

impl Client for ToyClient {
    type Connection = Wire;

    fn label(&self) -> &str {
        &self.settings.label
    }

    async fn connect(&self, _within: Duration) -> Result<Opened<Wire>, NodeError> {
        let bug = self.settings.bug;
        if bug == Bug::NeverReconnects && self.was_connected() {
            return Err(NodeError::not_sent("the connection is closed"));
        }
        let kept = self.kept.lock().unwrap().clone();
        if let Some(wire) = kept.filter(Wire::is_open) {
            return Ok(Opened::new(wire.clone(), wire.closed()));
        }
        let stream = self.open().await?;
        self.was_connected.store(true, Ordering::Relaxed);
        let (requests, receiver) = mpsc::unbounded_channel();
        let closing = Arc::<Notify>::default();
        let driver = run(stream, receiver, Arc::clone(&closing), bug);
        let wire = Wire {
            requests,
            closing,
            bug,
        };
        if bug == Bug::KeepsHungConnection {
            *self.kept.lock().unwrap() = Some(wire.clone());
        }
        if !matches!(bug, Bug::KeepsHungConnection | Bug::LeaksConnections) {
            return Ok(Opened::new(wire, driver));
        }
        // It goes on whatever becomes of the connection's task.
        let held = wire.clone();
        tokio::spawn(async move {
            driver.await;
            drop(held);
        });
        Ok(Opened::new(wire.clone(), wire.closed()))
    }
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

type Request = (Vec<u8>, oneshot::Sender<Line>);

/// A connection.
#[derive(Clone)]
pub(crate) struct Wire {
    requests: mpsc::UnboundedSender<Request>,
    closing: Arc<Notify>,
    bug: Bug,
}

impl Wire {
    fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Ends when another task that drives the connection does.
    async fn closed(self) -> NodeError {
        self.requests.closed().await;
        NodeError::connection("the connection broke")
    }
}

impl Connection for Wire {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (wire, command) = (self.clone(), command.clone());
        async move {
            let words = command.args();
            let is_release = matches!(command.operation(), Operation::Release { .. });
            if wire.bug == Bug::ForgetsUndo && is_release && &*words[0] == b"EVAL" {
                return Err(NodeError::not_sent("forgotten"));
            }
            let (reply, answer) = oneshot::channel();
            // If the driver has ended, so has the receiver.
            wire.requests.send((encode(&words), reply)).ok();
            let closes = (wire.bug == Bug::ClosesWhenDropped).then(|| Closes(&wire.closing));
            let answer = answer.await;
            std::mem::forget(closes);
            match answer {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(line)) => {
                    if wire.bug == Bug::ClosesOnError && !line.starts_with("NOSCRIPT") {
                        wire.closing.notify_one();
                    }
                    Err(NodeError::server(line))
                }
                Err(_) => {
                    let cause = io::Error::from(io::ErrorKind::ConnectionReset);
                    Err(NodeError::connection("the connection broke").with_source(cause))
                }
            }
        }
    }
}

/// Closes the connection when it is dropped.
struct Closes<'a>(&'a Notify);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn run(
    stream: TcpStream,
    requests: mpsc::UnboundedReceiver<Request>,
    closing: Arc<Notify>,
    bug: Bug,
) -> NodeError {
    let ended = tokio::select! {
        ended = carry(stream, requests, bug) => ended,
        () = closing.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    match ended {
        Ok(()) => pending().await,
        Err(why) => NodeError::connection("the connection broke").with_source(why),
    }
}

/// Carries requests out and replies back, in order, until nobody can send any more.
async fn carry(
    mut stream: TcpStream,
    mut requests: mpsc::UnboundedReceiver<Request>,
    bug: Bug,
) -> io::Result<()> {
    let mut waiting: VecDeque<oneshot::Sender<Line>> = VecDeque::new();
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            biased;
            request = requests.recv() => {
                let Some((words, reply)) = request else { return Ok(()) };
                waiting.push_back(reply);
                stream.write_all(&words).await?;
            },
            read = stream.read_buf(&mut bytes) => {
                if read? == 0 {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                while let Some(line) = take(&mut bytes, bug) {
                    if bug == Bug::ShiftsReplies {
                        waiting.retain(|reply| !reply.is_closed());
                    }
                    // A caller that has given up takes no reply.
                    waiting.pop_front().map(|reply| reply.send(line));
                }
            },
        }
    }
}
