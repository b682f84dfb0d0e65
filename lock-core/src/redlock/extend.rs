//! Extending a lock that is held.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::call::{Done, Purpose, Vote};
use super::calls::Calls;
use super::heal;
use super::protocol::{ExtendRound, ExtendVerdict, KeyAnswer, NodeSet, Timing};
use crate::error::ExtendError;
use crate::node::{Command, NodeError, Operation};
use crate::trace;

pub(crate) async fn extend(attempt: &Arc<Attempt>, ttl: Duration) -> Result<(), ExtendError> {
    let timing = attempt.engine.settings.timing(ttl)?;
    if attempt.remaining().is_zero() && !mutant!(ExtendRevives) {
        return Err(ExtendError::Lost);
    }
    let extended = run(attempt, timing, |attempt| {
        !attempt.remaining().is_zero() || mutant!(ExtendRevives)
    });
    let result = extended.await;
    match &result {
        Ok(()) => trace::extended(attempt.keys.first(), attempt.remaining()),
        Err(error) => trace::not_extended(attempt.keys.first(), attempt.remaining(), error),
    }
    result
}

/// Finds out whether a lock that was handed over is held, by extending it.
pub(crate) async fn resume(attempt: &Arc<Attempt>) -> Result<(), ExtendError> {
    run(attempt, attempt.timing, |attempt| !attempt.is_over()).await
}

/// One round. If it wins, the lock counts as extended only if it `is_held` still.
async fn run(
    attempt: &Arc<Attempt>,
    timing: Timing,
    is_held: fn(&Attempt) -> bool,
) -> Result<(), ExtendError> {
    attempt.note_ttl(timing);
    let started = attempt.runtime.now();
    let mut extending = Extending::new(attempt, timing, started);
    match extending.vote().await {
        // A lock whose validity ended meanwhile, or that was released, is not revived.
        ExtendVerdict::Extended if !is_held(attempt) => Err(ExtendError::Lost),
        ExtendVerdict::Extended => {
            let started = match mutant!(ExtendFromReplies) {
                true => attempt.runtime.now(),
                false => started,
            };
            let valid_until = started.saturating_add(timing.validity);
            attempt.extend_validity(valid_until);
            extending.heal(valid_until).await;
            Ok(())
        }
        ExtendVerdict::Lost => {
            attempt.lose();
            Err(ExtendError::Lost)
        }
        ExtendVerdict::Unavailable => {
            let labels = attempt.engine.labels();
            let extended = |answer: &KeyAnswer| *answer == KeyAnswer::Ours;
            Err(ExtendError::Unavailable {
                quorum: attempt.quorum().needed(),
                nodes: extending.round.ballots.reports(labels, extended),
            })
        }
    }
}

/// An extension under way.
struct Extending {
    calls: Calls,
    round: ExtendRound,
    timing: Timing,
    started: Duration,
    /// Until when the lock is ours, once the round has won its quorum.
    won_until: Option<Duration>,
}

impl Extending {
    fn new(attempt: &Arc<Attempt>, timing: Timing, now: Duration) -> Self {
        let mut round = ExtendRound::new(attempt.quorum());
        let mut calls = Calls::new(Arc::clone(attempt), now, timing.node_timeout);
        let entries = attempt.keys.entries(attempt.token, timing.ttl).collect();
        let command = Command::from(Operation::Extend { entries });
        for node in NodeSet::all(attempt.quorum().nodes()).iter() {
            let within = attempt.within_of(node, timing);
            round.ballots.ask(node, now, within);
            calls.start(node, Purpose::Extend, command.clone(), within);
        }
        Self {
            calls,
            round,
            timing,
            started: now,
            won_until: None,
        }
    }

    async fn vote(&mut self) -> ExtendVerdict {
        let attempt = Arc::clone(self.calls.attempt());
        loop {
            if let Some(verdict) = self.round.verdict() {
                return verdict;
            }
            let until = self.round.ballots.next_deadline().unwrap_or(self.started);
            let Some(done) = self.calls.next(until, self.round.votes_to_decide()).await else {
                let now = attempt.runtime.now().max(until);
                for node in self.round.ballots.expire(now).iter() {
                    attempt
                        .member(node)
                        .overdue(attempt.within_of(node, self.timing));
                }
                continue;
            };
            self.take(done);
        }
    }

    fn take(&mut self, done: Done) {
        let Vote::Extend(answer) = done.vote else {
            self.calls.settle(done);
            return;
        };
        let is_missing = matches!(answer, Ok(KeyAnswer::Missing));
        let attempt = self.calls.attempt();
        let answer = answer.and_then(|answer| {
            let is_sure = attempt.note_extend(done.node, answer, self.started);
            match answer {
                KeyAnswer::Ours if !is_sure => Err(NodeError::connection(
                    "not counted yet: the command that set the key had no answer",
                )),
                _ => Ok(answer),
            }
        });
        self.round.ballots.record(done.node, answer);
        if is_missing && let Some(won_until) = self.won_until {
            heal::set_again(&mut self.calls, done.node, self.timing, won_until);
        }
    }

    /// The round has won its quorum: sets the key again where it was forgotten. Those nodes vote
    /// from the next round on. Nodes that have not answered yet are healed in the background when
    /// they do, or the slowest one never would be.
    async fn heal(mut self, valid_until: Duration) {
        self.won_until = Some(valid_until);
        for node in self.round.missing().iter() {
            heal::set_again(&mut self.calls, node, self.timing, valid_until);
        }
        while let Some(done) = self.calls.next_ready().await {
            self.take(done);
        }
        if !self.calls.is_empty() {
            let runtime = Arc::clone(&self.calls.attempt().runtime);
            runtime.spawn(Box::pin(async move {
                while let Some(done) = self.calls.next_ended().await {
                    self.take(done);
                }
            }));
        }
    }
}
