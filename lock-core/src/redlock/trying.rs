//! One attempt under way: asks the nodes and takes their votes.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::call::{Done, Purpose, Vote};
use super::calls::Calls;
use super::protocol::{AcquireRound, AcquireStep, Admission, Asking, NodeSet, Tell, anchor_order};
use crate::node::{Command, NodeError};

/// An attempt under way. Dropping it undecided, by cancellation, releases what it has set.
pub(crate) struct Trying {
    pub(crate) calls: Calls,
    pub(crate) round: AcquireRound,
    tell: Tell,
    /// Known if somebody needs it.
    anchor: Option<usize>,
    /// The anchor is asked before the others, so that asking goes on while time passes.
    is_in_turn: bool,
    pub(crate) is_decided: bool,
}

impl Trying {
    pub(crate) fn new(attempt: Attempt, asking: Asking) -> Self {
        let now = attempt.started;
        let node_timeout = attempt.timing.node_timeout;
        let is_in_turn = asking.anchor_first;
        let needs_anchor = is_in_turn || asking.tell == Tell::Anchor;
        let anchor = needs_anchor.then(|| anchor(&attempt));
        let first = anchor.filter(|_| is_in_turn);
        Self {
            round: AcquireRound::new(attempt.quorum(), first, asking.cut_at),
            calls: Calls::new(Arc::new(attempt), now, node_timeout),
            tell: asking.tell,
            anchor,
            is_in_turn,
            is_decided: false,
        }
    }

    /// Asks, and takes votes until the outcome is certain.
    pub(crate) async fn vote(&mut self) {
        let attempt = Arc::clone(self.calls.attempt());
        let mut now = attempt.started;
        // A timer may have fired late, so that the caller's deadline has passed already.
        self.pass_time(now);
        loop {
            match self.round.step() {
                AcquireStep::Ask(nodes) => self.ask(nodes, now),
                AcquireStep::Wait(until) => match self.next(until).await {
                    Some(done) => {
                        self.take(done);
                        if self.is_in_turn {
                            // Answers that are in count, however late this is polled.
                            while let Some(done) = self.calls.next_ready().await {
                                self.take(done);
                            }
                            now = attempt.runtime.now();
                            self.pass_time(now);
                        }
                    }
                    None => {
                        now = attempt.runtime.now().max(until);
                        self.pass_time(now);
                    }
                },
                AcquireStep::Decided => return,
            }
        }
    }

    fn next(&mut self, until: Duration) -> impl Future<Output = Option<Done>> {
        self.calls.next(until, self.round.votes_to_decide())
    }

    fn pass_time(&mut self, now: Duration) {
        for node in self.round.handle_time(now).iter() {
            let attempt = self.calls.attempt();
            attempt.member(node).overdue(attempt.within(node));
        }
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration) {
        let attempt = Arc::clone(self.calls.attempt());
        // One command for all nodes, so that backends pack it only once.
        let plain = LazyCell::new(|| command(&attempt, false));
        let telling = LazyCell::new(|| command(&attempt, true));
        for node in nodes.iter() {
            let within = attempt.within(node);
            let admission = attempt.member(node).admit(now, within);
            if admission == Admission::Skip {
                let error = NodeError::not_sent("not asked: an earlier call has had no answer");
                self.round.handle_vote(node, Err(error));
                continue;
            }
            let command = if self.tells(node) {
                Command::clone(&telling)
            } else {
                Command::clone(&plain)
            };
            attempt.touch(node);
            self.round.asked(node, now, within);
            if admission == Admission::Probe {
                self.calls.start_probe(node, command, within);
            } else {
                self.calls.start(node, Purpose::Acquire, command, within);
            }
        }
    }

    /// Whether the node is to tell who holds the lock, if somebody does.
    fn tells(&self, node: usize) -> bool {
        match self.tell {
            Tell::Nobody => false,
            Tell::Anchor => self.anchor == Some(node),
            Tell::All => true,
        }
    }

    pub(crate) fn take(&mut self, done: Done) {
        if let Vote::Acquire { vote, .. } = done.vote {
            self.calls.attempt().note_acquire(done.node, &vote);
            self.round.handle_vote(done.node, vote);
        }
    }

    /// Ends the attempt: every node where its key may be gets a release.
    pub(crate) fn give_up(&mut self) {
        self.is_decided = true;
        self.calls.attempt().end();
        if mutant!(NoCleanupAfterFailure) {
            return;
        }
        if mutant!(LateGrantsForgotten) {
            let attempt = self.calls.attempt();
            let granted = attempt.granted();
            for node in attempt
                .touched()
                .iter()
                .filter(|node| !granted.contains(*node))
            {
                attempt.untouch(node);
            }
        }
        self.calls.start_releases();
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        if !self.is_decided && !mutant!(NoCleanupAfterCancellation) {
            self.give_up();
        }
    }
}

fn command(attempt: &Attempt, tells: bool) -> Command {
    let ttl = attempt.timing.ttl;
    Command::from(attempt.keys.acquire(attempt.token, ttl, tells))
}

/// The node that is asked first when votes are split: the next one when it is suspect.
fn anchor(attempt: &Attempt) -> usize {
    let nodes = attempt.quorum().nodes();
    let mut order = anchor_order(attempt.keys.first(), nodes);
    let first = order.next().unwrap_or_default();
    let is_well = |node: &usize| !attempt.member(*node).is_suspect();
    std::iter::once(first)
        .chain(order)
        .find(is_well)
        .unwrap_or(first)
}
