//! What the ledger learns of calls to nodes: from the node when they begin and end, from the
//! network when their commands leave.

use std::time::Duration;

use lock_core::node::{Command, NodeError, NodeErrorKind, Operation, Reply};

use super::coverage::Mark;
use super::ledger::Vote;
use super::network::EndpointId;
use super::operation::{has_source, is_acquire, is_exchanged, is_release, locks_of};
use super::world::World;

/// A node that had less time than this is not suspect when it did not answer.
const SUSPICIOUS: Duration = Duration::from_millis(10);

/// A call to a node that has not ended.
#[derive(Debug)]
pub(crate) struct OpenCall {
    number: u64,
    command: Command,
    began: Duration,
    within: Duration,
    /// Its command was written to a connection.
    is_sent: bool,
    /// It is an acquire, and began while the server was known not to answer.
    is_probe: bool,
}

impl OpenCall {
    /// Returns whether it has waited for a good part of the time that it may take.
    pub(super) fn is_slow(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= self.within / 2
    }

    /// Returns whether it has waited for as long as other calls than releases may take: a release may take
    /// ten times as long.
    pub(super) fn is_late(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= self.within / 10
    }

    /// Returns whether this is the call's command: the keeper sends a clone of it.
    fn is_of(&self, command: &Command) -> bool {
        std::ptr::eq(self.command.operation(), command.operation())
    }
}

impl World {
    /// Records that a call begins. Returns its number.
    pub(crate) fn call_begins(
        &mut self,
        id: EndpointId,
        command: &Command,
        within: Duration,
    ) -> u64 {
        let (operation, with_source) = (command.operation(), has_source(command));
        self.mark(Mark::Command);
        if with_source {
            self.mark(Mark::Resent);
        }
        let was_suspect = self.endpoint(id).is_suspect;
        let mut is_probe = false;
        for (token, keys) in locks_of(operation) {
            let now = self.now;
            let attempt = self.ledger.attempt_mut(id.client, &keys, token, now);
            let node = &mut attempt.nodes[id.server.0];
            if is_release(operation) {
                node.releases += 1;
                if std::mem::take(&mut node.is_late) {
                    self.mark(Mark::LateGrantReleased);
                }
            } else if is_acquire(operation) {
                node.asked += 1;
                if node.extends > 0 {
                    // It sets the key again for a lock that is held, whatever the server's state.
                    self.mark(Mark::Healed);
                } else if was_suspect {
                    self.begin_probe(id, within);
                    is_probe = true;
                }
            } else {
                node.extends += 1;
                if !with_source {
                    self.judge_renewal(id.client, token);
                }
            }
        }
        let began = self.now;
        let endpoint = self.endpoint(id);
        endpoint.next_call += 1;
        let number = endpoint.next_call;
        endpoint.calls.push(OpenCall {
            number,
            command: command.clone(),
            began,
            within,
            is_sent: false,
            is_probe,
        });
        endpoint.peak = endpoint.peak.max(endpoint.calls.len());
        number
    }

    fn begin_probe(&mut self, id: EndpointId, within: Duration) {
        self.mark(Mark::Probed);
        let now = self.now;
        let endpoint = self.endpoint(id);
        endpoint.probes += 1;
        let before = std::mem::replace(&mut endpoint.probed_at, now);
        // A probe of a client that was paused is not waited for any more, so there may be two.
        if endpoint.probes > 2 && now - before < within * 5 {
            self.wrong_call("bounds", id, "it is probed twice at once");
        }
    }

    /// Judges that the keeper writes a command to a connection. Returns whether it is an undo: a
    /// release that the keeper sends by itself.
    pub(super) fn call_leaves(&mut self, id: EndpointId, command: &Command) -> bool {
        let endpoint = self.endpoint(id);
        let mut calls = endpoint.calls.iter_mut();
        let Some(call) = calls.find(|call| call.is_of(command) && !call.is_sent) else {
            let is_undo = is_release(command.operation()) && has_source(command);
            if !is_undo {
                let text = "a command leaves twice, or after its call has ended";
                self.wrong_call("sending", id, text);
            }
            return is_undo;
        };
        call.is_sent = true;
        let number = call.number;
        let before = std::mem::replace(&mut endpoint.last_sent, number);
        if before > number {
            let text = "a command leaves behind that of a later call";
            self.wrong_call("sending", id, text);
        }
        false
    }

    /// Removes a call that is over.
    fn leave(&mut self, id: EndpointId, number: u64) -> Option<OpenCall> {
        let endpoint = self.endpoint(id);
        let mut calls = endpoint.calls.iter();
        let place = calls.position(|call| call.number == number)?;
        let call = endpoint.calls.remove(place);
        endpoint.probes -= usize::from(call.is_probe);
        Some(call)
    }

    /// Records that the caller has dropped the call.
    pub(crate) fn call_is_dropped(&mut self, id: EndpointId, number: u64) {
        if self.leave(id, number).is_some() {
            self.mark(Mark::CallDropped);
        }
    }

    /// Records that a call has ended, and judges its result.
    pub(crate) fn call_ends(
        &mut self,
        id: EndpointId,
        number: u64,
        result: &Result<Reply, NodeError>,
    ) {
        let Some(call) = self.leave(id, number) else {
            return;
        };
        let kind = result.as_ref().map_err(NodeError::kind);
        if kind == Err(NodeErrorKind::NotSent) && call.is_sent {
            let text = "a call was sent, and says that it was not";
            self.wrong_call("sending", id, text);
        }
        let now = self.now;
        let endpoint = self.endpoint(id);
        match kind {
            Ok(_) | Err(NodeErrorKind::Server) => endpoint.is_suspect = false,
            Err(NodeErrorKind::NoAnswer) if call.within >= SUSPICIOUS => {
                endpoint.is_suspect = true;
            }
            Err(_) => {}
        }
        match result {
            Ok(_) => endpoint.has_answered = true,
            Err(_) => endpoint.failed_at = endpoint.failed_at.max(now),
        }
        self.note_answer(id, call.command.operation(), result);
    }

    fn note_answer(
        &mut self,
        id: EndpointId,
        operation: &Operation,
        result: &Result<Reply, NodeError>,
    ) {
        let (vote, mark) = match result {
            Ok(Reply::Bytes(_) | Reply::Int(1)) => (Vote::Granted, Mark::Granted),
            // With a fencing token.
            Ok(Reply::Int(2..)) => (Vote::Granted, Mark::Granted),
            Ok(_) => (Vote::Refused, Mark::Refused),
            Err(error) => (Vote::Failed, failure(error)),
        };
        let now = self.now;
        let is_acquire = is_acquire(operation);
        if is_acquire || vote == Vote::Failed {
            self.mark(mark);
        }
        match (operation, result) {
            (Operation::Confirm { .. }, Ok(Reply::Int(1))) => self.mark(Mark::Confirmed),
            (Operation::Confirm { .. }, Ok(_)) => self.mark(Mark::NotConfirmed),
            _ => {}
        }
        for (token, keys) in locks_of(operation) {
            let attempt = self.ledger.attempt_mut(id.client, &keys, token, now);
            let node = &mut attempt.nodes[id.server.0];
            if is_acquire {
                node.vote = vote;
                node.voted_at = now;
                node.is_late = vote == Vote::Granted && node.releases > 0;
                node.is_doubtful |= vote == Vote::Failed;
            } else if result
                .as_ref()
                .is_ok_and(|reply| is_exchanged(operation, reply))
            {
                (node.vote, node.voted_at) = (Vote::Granted, now);
            } else if is_release(operation) {
                let was_owed = std::mem::replace(&mut node.is_owed, vote == Vote::Failed);
                if was_owed && vote != Vote::Failed {
                    self.mark(Mark::DebtCollected);
                }
            }
        }
    }

    pub(super) fn wrong_call(&mut self, invariant: &'static str, id: EndpointId, text: &str) {
        let (client, server) = (id.client.0, id.server.0);
        let text = format!("client {client}, node {server}: {text}");
        self.ledger.violation(invariant, text);
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
