//! A small client that keeps the rules, unless it is told to break one.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{NodeErrorKind, Operation, Subscription};
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::conformance::node::Target;
use tokio::sync::{Mutex, oneshot};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bug::Bug;
use crate::link::{Link, Settings, words};
use crate::state::State;
use crate::wire::Line;

pub(crate) struct ToyNode {
    settings: Settings,
    label: String,
    state: Mutex<State>,
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
        Ok(Self {
            settings: Settings {
                addr,
                password: target.password(),
                protocol: target.protocol(),
                bug,
            },
            label,
            state: Mutex::default(),
        })
    }

    fn bug(&self) -> Bug {
        self.settings.bug
    }

    async fn call(&self, command: &Command, deadline: Instant) -> Result<Reply, NodeError> {
        let operation = command.operation();
        if self.bug() == Bug::WaitsUnfairly
            && matches!(operation, Operation::Acquire { .. })
            && self
                .state
                .try_lock()
                .is_ok_and(|state| state.links[0].is_none())
        {
            sleep(Duration::from_millis(20)).await;
        }
        let state = self.state.lock();
        let mut state = if self.bug() == Bug::OneAtATime {
            state.await
        } else {
            let late = |_| NodeError::not_sent("others are in the way");
            timeout_at(deadline, state).await.map_err(late)?
        };
        let link = match state.link(&self.settings, deadline).await {
            Ok(link) => link,
            Err(error) => {
                return self.not_connected(command, deadline, error, state).await;
            }
        };
        let reply = link.send(words(command));
        let state = (self.bug() == Bug::OneAtATime).then_some(state);
        let call = InFlight {
            link: &link,
            closes: self.bug() == Bug::ClosesWhenDropped,
        };
        let answer = self.wait(reply, deadline).await;
        std::mem::forget(call);
        drop(state);
        self.judge(command, &link, answer).await
    }

    async fn wait(
        &self,
        reply: oneshot::Receiver<Line>,
        deadline: Instant,
    ) -> Option<Result<Line, oneshot::error::RecvError>> {
        let deadline = match self.bug() {
            Bug::IgnoresWithin => return Some(reply.await),
            Bug::OwnTimeout => deadline.min(Instant::now() + Duration::from_millis(50)),
            _ => deadline,
        };
        timeout_at(deadline, reply).await.ok()
    }

    /// What a call comes to whose command was sent.
    async fn judge(
        &self,
        command: &Command,
        link: &Arc<Link>,
        answer: Option<Result<Line, oneshot::error::RecvError>>,
    ) -> Result<Reply, NodeError> {
        let line = match answer {
            Some(Ok(line)) => line,
            _ if self.bug() == Bug::DoubtAsNotSent => {
                return Err(NodeError::not_sent("no answer"));
            }
            Some(Err(_)) => {
                link.close();
                if self.bug() == Bug::BreakAsRefusal {
                    return Ok(Reply::Nil);
                }
                let cause = io::Error::from(io::ErrorKind::ConnectionReset);
                return Err(NodeError::connection("the connection broke").with_source(cause));
            }
            None => {
                link.silent.fetch_add(1, Ordering::Relaxed);
                link.given_up(command.operation());
                return Err(NodeError::no_answer(Duration::ZERO));
            }
        };
        link.silent.store(0, Ordering::Relaxed);
        match line {
            Ok(reply) => Ok(reply),
            Err(line) => self.server_error(command, link, line).await,
        }
    }

    async fn server_error(
        &self,
        command: &Command,
        link: &Arc<Link>,
        line: String,
    ) -> Result<Reply, NodeError> {
        // The one error that is part of everyday life.
        if line.starts_with("NOSCRIPT") {
            return Err(NodeError::server(line));
        }
        match self.bug() {
            Bug::ErrorAsRefusal => return Ok(Reply::Nil),
            Bug::HidesCodes => return Err(NodeError::connection("the server failed")),
            Bug::ClosesOnError => link.close(),
            Bug::RetriesErrors => {
                let again = link.send(words(command));
                if let Ok(Ok(reply)) = again.await {
                    return Ok(reply);
                }
            }
            Bug::SulksAfterError => {
                let until = Instant::now() + Duration::from_secs(60);
                let error = NodeError::server(line.clone());
                let mut state = self.state.lock().await;
                state.links = [None, None];
                state.pause = Some((until, error));
            }
            Bug::FollowsMoved if line.starts_with("MOVED") => {
                let addr = line.rsplit(' ').next().and_then(|addr| addr.parse().ok());
                let mut settings = self.settings.clone();
                settings.addr = addr.unwrap_or(settings.addr);
                Link::open(settings).await?;
            }
            _ => {}
        }
        Err(NodeError::server(line))
    }

    /// What a call comes to that found no connection.
    async fn not_connected(
        &self,
        command: &Command,
        deadline: Instant,
        error: NodeError,
        mut state: tokio::sync::MutexGuard<'_, State>,
    ) -> Result<Reply, NodeError> {
        if !matches!(self.bug(), Bug::RemembersFailed | Bug::OfflineQueue) {
            return Err(error);
        }
        let (sender, reply) = oneshot::channel();
        state.queue.push((words(command), sender));
        drop(state);
        if self.bug() == Bug::RemembersFailed {
            return Err(error);
        }
        match timeout_at(deadline, reply).await {
            Ok(Ok(Ok(reply))) => Ok(reply),
            Ok(Ok(Err(line))) => Err(NodeError::server(line)),
            _ => Err(NodeError::no_answer(Duration::ZERO)),
        }
    }
}

/// A call whose command was sent.
struct InFlight<'a> {
    link: &'a Link,
    closes: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.closes {
            self.link.close();
        }
    }
}

#[async_trait]
impl RedisNode for ToyNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let deadline = Instant::now() + within;
        // Unconstrained, so that the first poll sends the command whatever the task did before.
        let answer = unconstrained(self.call(command, deadline)).await;
        match answer {
            Err(error)
                if error.kind() == NodeErrorKind::Connection && self.bug() == Bug::Resends =>
            {
                self.call(command, deadline).await
            }
            answer => answer,
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        match self.bug() {
            Bug::PanicsWhenListening => panic!("not implemented"),
            Bug::FailsToListen => Err(NodeError::connection("cannot subscribe")),
            _ => Err(NodeError::cannot_listen()),
        }
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for ToyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ToyNode");
        shown.field("label", &self.label);
        if self.bug() == Bug::PasswordInDebug {
            shown.field("password", &self.settings.password);
        }
        shown.finish()
    }
}
