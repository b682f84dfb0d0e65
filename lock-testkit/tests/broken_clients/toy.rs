//! A small client that keeps the rules, unless it is told to break one.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::ClientNode;
use lock_core::node::{NodeErrorKind, Operation, Subscription};
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::conformance::node::Target;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::bug::Bug;
use crate::client::{Settings, ToyClient};

const HOUR: Duration = Duration::from_secs(3600);

/// A command, and where its answer goes.
type Remembered = (Command, oneshot::Sender<Result<Reply, NodeError>>);

pub(crate) struct ToyNode {
    settings: Settings,
    /// All but one bug take the first of them.
    nodes: [Arc<ClientNode<ToyClient>>; 2],
    calls: AtomicUsize,
    /// For calls that go one at a time.
    turn: tokio::sync::Mutex<()>,
    /// Until when nothing is asked, and why.
    sulks: Mutex<Option<(Instant, NodeError)>>,
    /// Calls that failed and are sent after all.
    remembered: Mutex<Vec<Remembered>>,
}

fn keep(settings: &Settings) -> Arc<ClientNode<ToyClient>> {
    let node = ClientNode::new(ToyClient::new(settings.clone()));
    Arc::new(if settings.bug == Bug::WaitsForServer {
        node.connect_timeout(HOUR)
    } else {
        node
    })
}

impl ToyNode {
    pub(crate) fn new(target: &Target, bug: Bug) -> io::Result<Self> {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let addr = target.addr();
        let label = match (bug, target.password()) {
            (Bug::PasswordInLabel, Some(password)) => format!("{password}@{addr}"),
            (Bug::LabelOfItsOwn, _) => {
                format!("{addr}#{}", BUILT.fetch_add(1, Ordering::Relaxed))
            }
            _ => addr.to_string(),
        };
        match bug {
            Bug::ConnectsWhenBuilt => drop(std::net::TcpStream::connect(addr)?),
            Bug::WaitsWhenBuilt => {
                if let Ok(mut stream) = std::net::TcpStream::connect(addr) {
                    stream.set_read_timeout(Some(Duration::from_secs(4)))?;
                    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
                    // It only wants to know whether anybody is there.
                    stream.read_exact(&mut [0; 7]).ok();
                }
            }
            _ => {}
        }
        let settings = Settings {
            addr,
            label,
            password: target.password(),
            protocol: target.protocol(),
            bug,
        };
        Ok(Self {
            nodes: [keep(&settings), keep(&settings)],
            settings,
            calls: AtomicUsize::new(0),
            turn: tokio::sync::Mutex::default(),
            sulks: Mutex::default(),
            remembered: Mutex::default(),
        })
    }

    fn bug(&self) -> Bug {
        self.settings.bug
    }

    /// The node for the next call.
    fn node(&self) -> Arc<ClientNode<ToyClient>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.bug() {
            Bug::ConnectsForEachCall => keep(&self.settings),
            Bug::TwoConnections => Arc::clone(&self.nodes[call % 2]),
            _ => Arc::clone(&self.nodes[0]),
        }
    }

    /// What a call comes to that failed.
    async fn failed(
        &self,
        command: &Command,
        within: Duration,
        error: NodeError,
    ) -> Result<Reply, NodeError> {
        // The one error that is part of everyday life.
        if error.code() == Some("NOSCRIPT") {
            return Err(error);
        }
        match (self.bug(), error.kind()) {
            (Bug::Resends, NodeErrorKind::Connection)
            | (Bug::RetriesErrors, NodeErrorKind::Server) => {
                return self.node().execute(command, within).await;
            }
            (Bug::ErrorAsRefusal, NodeErrorKind::Server)
            | (Bug::BreakAsRefusal, NodeErrorKind::Connection) => return Ok(Reply::Nil),
            (Bug::HidesCodes, NodeErrorKind::Server) => {
                return Err(NodeError::connection("the server failed"));
            }
            (Bug::DoubtAsNotSent, NodeErrorKind::Connection | NodeErrorKind::NoAnswer) => {
                return Err(NodeError::not_sent("no answer"));
            }
            (Bug::SulksAfterError, NodeErrorKind::Server) => {
                let until = Instant::now() + Duration::from_secs(60);
                *self.sulks.lock().unwrap() = Some((until, error.clone()));
            }
            (Bug::FollowsMoved, NodeErrorKind::Server) if error.code() == Some("MOVED") => {
                let text = error.to_string();
                let addr = text.rsplit(' ').next().unwrap_or_default();
                let there = TcpStream::connect(addr).await;
                there.map_err(|cause| NodeError::not_sent("cannot connect").with_source(cause))?;
            }
            (Bug::RemembersFailed | Bug::OfflineQueue, NodeErrorKind::NotSent) => {
                return self.remember(command, within, error).await;
            }
            _ => {}
        }
        Err(error)
    }

    /// Keeps a call that failed for the next one that finds a connection.
    async fn remember(
        &self,
        command: &Command,
        within: Duration,
        error: NodeError,
    ) -> Result<Reply, NodeError> {
        let (sender, answer) = oneshot::channel();
        self.remembered
            .lock()
            .unwrap()
            .push((command.clone(), sender));
        if self.bug() == Bug::RemembersFailed {
            return Err(error);
        }
        match timeout(within, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Err(NodeError::no_answer(within)),
        }
    }

    async fn send_remembered(&self) {
        let remembered = std::mem::take(&mut *self.remembered.lock().unwrap());
        for (command, sender) in remembered {
            let answer = self.node().execute(&command, HOUR).await;
            // The caller may have gone.
            sender.send(answer).ok();
        }
    }
}

#[async_trait]
impl RedisNode for ToyNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        if let Some((until, error)) = &*self.sulks.lock().unwrap()
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        let turn = match self.bug() {
            Bug::OneAtATime => Some(self.turn.lock().await),
            _ => None,
        };
        let is_acquire = matches!(command.operation(), Operation::Acquire { .. });
        if self.bug() == Bug::WaitsUnfairly && is_acquire && !self.nodes[0].client().was_connected()
        {
            sleep(Duration::from_millis(20)).await;
        }
        let within = match self.bug() {
            Bug::IgnoresWithin => HOUR,
            Bug::OwnTimeout => within.min(Duration::from_millis(50)),
            _ => within,
        };
        let answer = self.node().execute(command, within).await;
        drop(turn);
        match answer {
            Ok(reply) => {
                self.send_remembered().await;
                Ok(reply)
            }
            Err(error) => self.failed(command, within, error).await,
        }
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        match self.bug() {
            Bug::PanicsWhenListening => panic!("not implemented"),
            Bug::FailsToListen => Err(NodeError::connection("cannot subscribe")),
            _ => self.node().subscribe(channel).await,
        }
    }

    fn label(&self) -> &str {
        &self.settings.label
    }
}

impl fmt::Debug for ToyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ToyNode");
        shown.field("label", &self.settings.label);
        if self.bug() == Bug::PasswordInDebug {
            shown.field("password", &self.settings.password);
        }
        shown.finish()
    }
}
