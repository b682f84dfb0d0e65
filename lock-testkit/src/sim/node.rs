//! The simulated backend: a `RedisNode` of one client for one server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{
    Command, NodeError, NodeErrorKind, Operation, RedisNode, Reply, Subscription,
};

use super::ledger::Told;
use super::marks::Mark;
use super::network::{Cell, EndpointId, Request};
use super::operation::{is_acquire, is_release, locks_of};
use super::shared::Shared;
use super::timer::Sleep;
use super::world::World;

/// Who had less time than this is not suspect when it did not answer.
const SUSPICIOUS: Duration = Duration::from_millis(10);

/// A client's node: what a backend is in production.
///
/// It keeps all numbered rules of [`RedisNode`]. Each client has one connection to each server at
/// a time, which is opened at the first call; three calls without an answer in a row replace it,
/// and then the releases of its doubtful acquires are written behind them first (N12).
#[derive(Clone)]
pub struct SimNode {
    shared: Arc<Shared>,
    id: EndpointId,
    label: String,
}

impl SimNode {
    pub(crate) fn new(shared: &Arc<Shared>, id: EndpointId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            label: format!("node-{}", id.server.0),
        }
    }

    /// Sends the command at once: called at the first poll of a call.
    fn begin(&self, command: &Command, within: Duration) -> Exchange {
        let operation = command.operation().clone();
        // Only a script has a source.
        let is_plain = matches!(operation, Operation::Acquire { .. });
        let with_source = !is_plain && command.args().first().is_some_and(|word| word.len() == 4);
        let cell = Cell::new();
        let timer = self.shared.sleep(self.id.client, within);
        let mut world = self.shared.world();
        let is_probe = world.command_begins(self.id, &operation, with_source, within);
        let request = Request {
            operation: operation.clone(),
            with_source,
            is_undo: false,
            cell: Some(Arc::clone(&cell)),
            number: 0,
        };
        if let Err(error) = world.call(self.id, request) {
            cell.state().result = Some(Err(error));
        }
        drop(world);
        Exchange {
            shared: Arc::clone(&self.shared),
            id: self.id,
            operation,
            cell,
            timer,
            within,
            is_probe,
            has_ended: false,
        }
    }
}

/// A call under way.
struct Exchange {
    shared: Arc<Shared>,
    id: EndpointId,
    operation: Operation,
    cell: Arc<Cell>,
    timer: Sleep,
    within: Duration,
    /// An acquire that was sent while the server was known not to answer.
    is_probe: bool,
    has_ended: bool,
}

impl Exchange {
    fn end(&mut self, result: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
        self.has_ended = true;
        self.cell.state().is_over = true;
        let mut world = self.shared.world();
        world.endpoint(self.id).probes -= usize::from(self.is_probe);
        world.command_ends(self.id, &self.operation, self.within, &result);
        result
    }

    /// Ends without an answer; `true` if the command was sent.
    fn give_up(&self, timed_out: bool) -> bool {
        let (sent, silent) = {
            let mut state = self.cell.state();
            state.is_over = true;
            (state.sent, state.silent)
        };
        if let Some(sent) = sent {
            let mut world = self.shared.world();
            world.give_up(sent, silent, &self.operation, timed_out);
        }
        sent.is_some()
    }
}

impl Future for Exchange {
    type Output = Result<Reply, NodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = {
            let mut state = self.cell.state();
            let result = state.result.take();
            if result.is_none() {
                state.waker = Some(cx.waker().clone());
            }
            result
        };
        if let Some(result) = result {
            return Poll::Ready(self.end(result));
        }
        if Pin::new(&mut self.timer).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let result = if self.give_up(true) {
            NodeError::no_answer(self.within)
        } else {
            NodeError::not_sent("still connecting")
        };
        Poll::Ready(self.end(Err(result)))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.has_ended {
            self.give_up(false);
            let mut world = self.shared.world();
            let endpoint = world.endpoint(self.id);
            endpoint.in_flight -= 1;
            endpoint.probes -= usize::from(self.is_probe);
            world.mark(Mark::CallDropped);
        }
    }
}

#[async_trait]
impl RedisNode for SimNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        self.begin(command, within).await
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNode({}, client {})", self.label, self.id.client.0)
    }
}

/// What the ledger learns of calls.
impl World {
    /// Returns whether it is an acquire to a server that is known not to answer.
    fn command_begins(
        &mut self,
        id: EndpointId,
        operation: &Operation,
        with_source: bool,
        within: Duration,
    ) -> bool {
        self.mark(Mark::Command);
        if with_source {
            self.mark(Mark::Resent);
        }
        let endpoint = self.endpoint(id);
        endpoint.in_flight += 1;
        endpoint.peak = endpoint.peak.max(endpoint.in_flight);
        let was_suspect = endpoint.is_suspect;
        let mut is_probe = false;
        for (token, keys) in locks_of(operation) {
            let now = self.now;
            let attempt = self.ledger.attempt_mut(id.client, &keys, token, now);
            let dealing = &mut attempt.dealings[id.server.0];
            if is_release(operation) {
                dealing.releases += 1;
                if std::mem::take(&mut dealing.is_late) {
                    self.mark(Mark::LateGrantReleased);
                }
            } else if is_acquire(operation) {
                dealing.asked += 1;
                if dealing.extends > 0 {
                    // It sets the key again for a lock that is held, whatever the server's state.
                    self.mark(Mark::Healed);
                } else if was_suspect {
                    self.begin_probe(id, within);
                    is_probe = true;
                }
            } else {
                dealing.extends += 1;
                if !with_source {
                    self.judge_renewal(id.client, token);
                }
            }
        }
        is_probe
    }

    fn begin_probe(&mut self, id: EndpointId, within: Duration) {
        self.mark(Mark::Probed);
        let now = self.now;
        let endpoint = self.endpoint(id);
        endpoint.probes += 1;
        let before = std::mem::replace(&mut endpoint.probed_at, now);
        // A probe of a client that was paused is not waited for any more, so there may be two.
        if endpoint.probes > 2 && now - before < within * 5 {
            let (client, server) = (id.client.0, id.server.0);
            let text = format!("client {client} probes node {server} twice at once");
            self.ledger.violation("bounds", text);
        }
    }

    fn command_ends(
        &mut self,
        id: EndpointId,
        operation: &Operation,
        within: Duration,
        result: &Result<Reply, NodeError>,
    ) {
        let (told, mark) = match result {
            Ok(Reply::Bytes(_) | Reply::Int(1)) => (Told::Granted, Mark::Granted),
            Ok(_) => (Told::Refused, Mark::Refused),
            Err(error) => (Told::Failed, failure(error)),
        };
        let kind = result.as_ref().map_err(NodeError::kind);
        let now = self.now;
        let endpoint = self.endpoint(id);
        endpoint.in_flight -= 1;
        match kind {
            Ok(_) | Err(NodeErrorKind::Server) => endpoint.is_suspect = false,
            Err(NodeErrorKind::NoAnswer) if within >= SUSPICIOUS => endpoint.is_suspect = true,
            Err(_) => {}
        }
        match result {
            Ok(_) => endpoint.has_answered = true,
            Err(_) => endpoint.failed_at = now,
        }
        let is_acquire = is_acquire(operation);
        if is_acquire || told == Told::Failed {
            self.mark(mark);
        }
        for (token, keys) in locks_of(operation) {
            let attempt = self.ledger.attempt_mut(id.client, &keys, token, now);
            let dealing = &mut attempt.dealings[id.server.0];
            if is_acquire {
                dealing.told = told;
                dealing.told_at = now;
                dealing.is_late = told == Told::Granted && dealing.releases > 0;
            } else if is_release(operation) {
                let was_owed = std::mem::replace(&mut dealing.is_owed, told == Told::Failed);
                if was_owed && told != Told::Failed {
                    self.mark(Mark::DebtCollected);
                }
            }
        }
    }
}

fn failure(error: &NodeError) -> Mark {
    match error.kind() {
        NodeErrorKind::NotSent => Mark::NotSent,
        NodeErrorKind::NoAnswer => Mark::NoAnswer,
        NodeErrorKind::Server if error.code() == Some("NOSCRIPT") => Mark::NoScript,
        NodeErrorKind::Server => Mark::ServerError,
        _ => Mark::ConnectionLost,
    }
}
