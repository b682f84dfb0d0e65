//! Extending a lock that is held.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::calls::{Calls, Purpose, Vote};
use super::held::Held;
use super::protocol::{ExtendRound, ExtendVerdict, KeyAnswer, NodeSet, Timing};
use crate::error::ExtendError;
use crate::guard::HeldLock;
use crate::node::{Command, ExtendEntry, Operation};

pub(crate) async fn extend(held: &Held, ttl: Duration) -> Result<(), ExtendError> {
    let attempt = held.attempt();
    let timing = attempt.engine.settings.timing(ttl)?;
    if held.remaining().is_zero() {
        return Err(ExtendError::Lost);
    }
    attempt.note_ttl(timing);
    let started = attempt.runtime.now();
    let mut extending = Extending::new(attempt, timing, started);
    match extending.vote(started).await {
        // A lock whose validity ended meanwhile, or that was released, is not revived.
        ExtendVerdict::Extended if held.remaining().is_zero() => Err(ExtendError::Lost),
        ExtendVerdict::Extended => {
            held.extend_validity(started.saturating_add(timing.validity));
            extending.heal();
            extending.calls.send().await;
            Ok(())
        }
        ExtendVerdict::Lost => Err(ExtendError::Lost),
        ExtendVerdict::Unavailable => {
            let labels = attempt.engine.labels();
            let extended = |answer: &KeyAnswer| *answer == KeyAnswer::Ours;
            Err(ExtendError::Unavailable {
                quorum: attempt.quorum().needed(),
                nodes: extending.round.ballots().reports(labels, extended),
            })
        }
    }
}

/// An extension under way.
struct Extending {
    calls: Calls,
    round: ExtendRound,
    timing: Timing,
}

impl Extending {
    fn new(attempt: &Arc<Attempt>, timing: Timing, now: Duration) -> Self {
        let mut round = ExtendRound::new(attempt.quorum());
        let mut calls = Calls::new(Arc::clone(attempt), now);
        let entry = ExtendEntry {
            key: Arc::clone(&attempt.key),
            token: attempt.token,
            ttl: timing.ttl,
        };
        let entries = Arc::from([entry]);
        for node in NodeSet::all(attempt.quorum().nodes()).iter() {
            let command = Command::from(Operation::Extend {
                entries: Arc::clone(&entries),
            });
            let within = attempt.within_of(node, timing);
            round.asked(node, now, within);
            calls.start(node, Purpose::Extend, command, within);
        }
        Self {
            calls,
            round,
            timing,
        }
    }

    async fn vote(&mut self, started: Duration) -> ExtendVerdict {
        let attempt = Arc::clone(self.calls.attempt());
        loop {
            if let Some(verdict) = self.round.verdict() {
                return verdict;
            }
            let until = self.round.next_deadline().unwrap_or(started);
            let Some(done) = self.calls.next(until).await else {
                let now = attempt.runtime.now().max(until);
                for node in self.round.handle_time(now).iter() {
                    attempt.member(node).overdue();
                }
                continue;
            };
            if let Vote::Extend(answer) = done.vote {
                if let Ok(answer) = &answer {
                    attempt.set_granted(done.node, *answer == KeyAnswer::Ours);
                }
                self.round.handle_vote(done.node, answer);
            }
        }
    }

    /// Sets the key again where it was forgotten. Those nodes vote from the next round on.
    fn heal(&mut self) {
        let attempt = Arc::clone(self.calls.attempt());
        for node in self.round.missing().iter() {
            // In this order: whoever ends the attempt afterwards sees the node and releases it.
            attempt.touch(node);
            if attempt.is_over() {
                return;
            }
            let command = Command::from(Operation::Acquire {
                key: Arc::clone(&attempt.key),
                token: attempt.token,
                ttl: self.timing.ttl,
            });
            let within = attempt.within_of(node, self.timing);
            self.calls.start(node, Purpose::Heal, command, within);
        }
    }
}
