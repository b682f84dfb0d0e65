//! The server inside a node, which takes requests in order and answers them, or does not.

use std::collections::VecDeque;
use std::time::Duration;

use futures::channel::oneshot;
use lock_core::node::Operation;
use lock_core::{NodeError, Reply};

use super::keyspace::Keyspace;
use super::{Calls, Fault};

type Answer = Result<Reply, NodeError>;

/// Everything behind the lock of a node.
///
/// It has no task of its own. Instead, every caller says what time it is and first lets it run what
/// is due ([`run_due`](Server::run_due)), each request at the instant at which it was due. So a
/// command takes effect at the right time even if its caller is gone.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) keyspace: Keyspace,
    pub(super) calls: Calls,
    fault: Option<Fault>,
    /// The requests that were received or are on their way, in the order of the calls.
    requests: VecDeque<Request>,
    /// When it last resumed after a hang: requests that it received meanwhile did not run before.
    resumed_at: Duration,
    /// Answers that are ready; see [`take_answers`](Server::take_answers).
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
}

#[derive(Debug)]
struct Request {
    operation: Operation,
    arrives_at: Duration,
    reply_to: oneshot::Sender<Answer>,
}

/// An accepted call, as its caller sees it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) arrives_at: Duration,
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            keyspace: Keyspace::new(),
            calls: Calls::default(),
            fault: None,
            requests: VecDeque::new(),
            resumed_at: Duration::ZERO,
            answers: Vec::new(),
        }
    }

    /// Takes a call, unless the server is down.
    pub(super) fn receive(
        &mut self,
        operation: &Operation,
        now: Duration,
    ) -> Result<Call, NodeError> {
        self.calls.count(operation);
        let delay = match &self.fault {
            Some(Fault::Refuse) => return Err(NodeError::not_sent("connection refused")),
            Some(Fault::Delay(delay)) => *delay,
            _ => Duration::ZERO,
        };
        let behind = self.requests.back().map_or(now, |last| last.arrives_at);
        let arrives_at = now.saturating_add(delay).max(behind);
        let (reply_to, answer) = oneshot::channel();
        self.requests.push_back(Request {
            operation: operation.clone(),
            arrives_at,
            reply_to,
        });
        Ok(Call { answer, arrives_at })
    }

    /// Runs what has arrived by now.
    pub(super) fn run_due(&mut self, now: Duration) {
        if self.fault == Some(Fault::Hang) {
            return;
        }
        while self.requests.front().is_some_and(|r| r.arrives_at <= now)
            && let Some(request) = self.requests.pop_front()
        {
            let at = request.arrives_at.max(self.resumed_at);
            let answer = match &self.fault {
                Some(Fault::Error(line)) => Err(NodeError::server(line.as_str())),
                Some(Fault::LoseReply) => self
                    .keyspace
                    .run(&request.operation, at)
                    .and_then(|_lost| Err(connection_lost())),
                _ => self.keyspace.run(&request.operation, at),
            };
            self.answers.push((request.reply_to, answer));
        }
    }

    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Changes the fault. The caller runs what is due before the change and after it.
    pub(super) fn set_fault(&mut self, fault: Option<Fault>, now: Duration) {
        if self.fault == Some(Fault::Hang) {
            self.resumed_at = now;
        }
        if fault == Some(Fault::Refuse) {
            self.disconnect();
        }
        self.fault = fault;
    }

    /// Breaks all connections: requests that have not run never do.
    pub(super) fn disconnect(&mut self) {
        let cut = self.requests.drain(..);
        self.answers
            .extend(cut.map(|request| (request.reply_to, Err(connection_lost()))));
    }

    /// Returns how many commands were sent and have not run yet.
    pub(super) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Returns the answers that became ready. They are given after the node's lock is free again,
    /// because that wakes the callers.
    pub(super) fn take_answers(&mut self) -> Answers {
        Answers(std::mem::take(&mut self.answers))
    }
}

#[must_use]
pub(super) struct Answers(Vec<(oneshot::Sender<Answer>, Answer)>);

impl Answers {
    pub(super) fn give(self) {
        for (caller, answer) in self.0 {
            // A caller that has given up takes no answer, but the command did run.
            drop(caller.send(answer));
        }
    }
}

pub(super) fn connection_lost() -> NodeError {
    NodeError::connection("connection reset by peer")
}
