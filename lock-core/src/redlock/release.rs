//! Releasing a lock that is held.

use std::convert::Infallible;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use futures::channel::oneshot;

use super::attempt::Attempt;
use super::call::Vote;
use super::calls::Calls;
use super::protocol::{KeyAnswer, ReleaseRound, ReleaseVerdict};
use crate::error::ReleaseError;
use crate::trace;

/// How far the release of a lock has come. There is one at a time.
#[derive(Debug, Default)]
pub(crate) enum ReleaseState {
    /// Not begun, or too few nodes answered the last one.
    #[default]
    Idle,
    /// Under way, by a caller or in the background. Others wait for it: nothing is ever sent to
    /// them, they notice that the sender is gone.
    Running(Vec<oneshot::Sender<Infallible>>),
    /// Over, with a definite answer: whether the lock was held. A lock that was handed over is not
    /// held here.
    Done { was_held: bool },
}

pub(crate) async fn release(attempt: &Arc<Attempt>) -> Result<(), ReleaseError> {
    match claim(attempt).await {
        Some(outcome) => outcome,
        None => Releasing::start(attempt).run(false).await,
    }
}

/// The same, but returns when all nodes have answered or failed to: for who ends the runtime next.
pub(crate) async fn release_everywhere(attempt: &Arc<Attempt>) -> Result<(), ReleaseError> {
    match claim(attempt).await {
        Some(outcome) => outcome,
        None => Releasing::start(attempt).run(true).await,
    }
}

/// Waits until the release has a definite outcome, or is for the caller to begin.
async fn claim(attempt: &Attempt) -> Option<Result<(), ReleaseError>> {
    loop {
        let running = match &mut *state(attempt) {
            ReleaseState::Done { was_held: true } => return Some(Ok(())),
            ReleaseState::Done { was_held: false } => return Some(Err(ReleaseError::NotHeld)),
            ReleaseState::Running(waiters) => {
                // Who has given up leaves nothing behind.
                waiters.retain(|waiter| !waiter.is_canceled());
                let (sender, receiver) = oneshot::channel();
                waiters.push(sender);
                receiver
            }
            idle => {
                *idle = ReleaseState::Running(Vec::new());
                return None;
            }
        };
        let Err(oneshot::Canceled) = running.await;
    }
}

/// Releases the lock unless that has happened already. Does not block.
pub(crate) fn release_in_background(attempt: &Arc<Attempt>) {
    if mutant!(DropWithoutRelease) {
        return;
    }
    {
        let mut state = state(attempt);
        if !matches!(*state, ReleaseState::Idle) {
            return;
        }
        *state = ReleaseState::Running(Vec::new());
    }
    Releasing::start(attempt).go_on_in_background();
}

/// The lock is no longer for its guard to release; `false` if its release has begun.
pub(crate) fn leave(attempt: &Attempt) -> bool {
    let mut state = state(attempt);
    let is_idle = matches!(*state, ReleaseState::Idle);
    if is_idle {
        *state = ReleaseState::Done { was_held: false };
    }
    is_idle
}

fn state(attempt: &Attempt) -> MutexGuard<'_, ReleaseState> {
    // Nothing that holds the lock can panic half-way through a change.
    attempt
        .release
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A release under way. If it is dropped, it goes on in the background.
struct Releasing {
    /// None once it has come to its end, or goes on elsewhere.
    under_way: Option<UnderWay>,
}

struct UnderWay {
    calls: Calls,
    round: ReleaseRound,
    is_concluded: bool,
}

impl Releasing {
    fn start(attempt: &Arc<Attempt>) -> Self {
        let now = attempt.runtime.now();
        attempt.end_held(!attempt.remaining_at(now).is_zero());
        let mut calls = Calls::new(Arc::clone(attempt), now, attempt.timing.node_timeout);
        let asked = calls.start_releases();
        let mut round = ReleaseRound::new(attempt.quorum(), asked, attempt.released());
        for node in asked.iter() {
            round.ballots.ask(node, now, attempt.within(node));
        }
        Self {
            under_way: Some(UnderWay {
                calls,
                round,
                is_concluded: false,
            }),
        }
    }

    async fn run(mut self, is_everywhere: bool) -> Result<(), ReleaseError> {
        let Some(under_way) = &mut self.under_way else {
            return Ok(());
        };
        let verdict = under_way.vote().await;
        under_way.conclude(verdict);
        let result = under_way.result(verdict);
        if is_everywhere {
            under_way.calls.finish().await;
        }
        self.under_way = None;
        result
    }

    fn go_on_in_background(&mut self) {
        let Some(mut under_way) = self.under_way.take() else {
            return;
        };
        let runtime = Arc::clone(&under_way.calls.attempt().runtime);
        runtime.spawn(Box::pin(async move {
            // Nobody waits for the answer; what has none is sent again as a debt of its node.
            let verdict = under_way.vote().await;
            if !under_way.is_concluded {
                under_way.conclude(verdict);
            }
        }));
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        self.go_on_in_background();
    }
}

impl UnderWay {
    async fn vote(&mut self) -> ReleaseVerdict {
        let attempt = Arc::clone(self.calls.attempt());
        loop {
            if let Some(verdict) = self.round.verdict() {
                return verdict;
            }
            let until = self
                .round
                .ballots
                .next_deadline()
                .unwrap_or(attempt.started);
            let Some(done) = self.calls.next(until, self.round.votes_to_decide()).await else {
                let now = attempt.runtime.now().max(until);
                for node in self.round.ballots.expire(now).iter() {
                    attempt.member(node).overdue(attempt.within(node));
                }
                continue;
            };
            if let Vote::Release(answer) = done.vote {
                attempt.note_release(done.node, &answer);
                self.round.handle_vote(done.node, answer);
            }
        }
    }

    /// Says what came of it to whoever asks next or waits already.
    fn conclude(&mut self, verdict: ReleaseVerdict) {
        self.is_concluded = true;
        let next = match verdict {
            ReleaseVerdict::Released => ReleaseState::Done { was_held: true },
            ReleaseVerdict::NotHeld => ReleaseState::Done { was_held: false },
            ReleaseVerdict::Unavailable => ReleaseState::Idle,
        };
        let before = mem::replace(&mut *state(self.calls.attempt()), next);
        let attempt = self.calls.attempt();
        let held = || attempt.runtime.now().saturating_sub(attempt.started);
        trace::released(attempt.keys.first(), held, verdict.name());
        // Dropping the senders wakes the waiters: foreign code, which must not run under the lock.
        drop(before);
    }

    fn result(&self, verdict: ReleaseVerdict) -> Result<(), ReleaseError> {
        match verdict {
            ReleaseVerdict::Released => Ok(()),
            ReleaseVerdict::NotHeld => Err(ReleaseError::NotHeld),
            ReleaseVerdict::Unavailable => {
                let attempt = self.calls.attempt();
                let released = |answer: &KeyAnswer| *answer == KeyAnswer::Ours;
                let ballots = &self.round.ballots;
                Err(ReleaseError::Unavailable {
                    quorum: attempt.quorum().needed(),
                    nodes: ballots.reports(attempt.engine.labels(), released),
                })
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // The runtime ended before the release did: whoever waits may try for himself.
        if !self.is_concluded {
            self.conclude(ReleaseVerdict::Unavailable);
        }
    }
}
