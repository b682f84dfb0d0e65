//! Releasing a lock that is held, and whatever else may be left of one.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::channel::oneshot;

use super::acquisition::{Acquisition, ReleaseState, Waiters};
use super::calls::{Call, Calls, Done, Purpose};
use super::confirm;
use super::debts;
use super::fanout::{FanOut, Operation, Rest};
use super::protocol::{Follow, KeyAnswer, NodeSet, ReleaseRound, ReleaseVerdict, Step};
use crate::error::ReleaseError;
use crate::events;
use crate::node::Token;
use crate::observer::ReleaseOutcome;

pub(crate) async fn release(lock: &Arc<Acquisition>) -> Result<(), ReleaseError> {
    match claim(lock).await {
        Some(outcome) => outcome,
        None => Release::start(lock, false).run().await,
    }
}

/// The same, but returns when all nodes have answered or failed to, since the runtime may end next. There
/// are others to release: a node may take as long as for any other command.
pub(crate) async fn release_everywhere(lock: &Arc<Acquisition>) -> Result<(), ReleaseError> {
    match claim(lock).await {
        Some(outcome) => outcome,
        None => Release::start(lock, true).run().await,
    }
}

/// Releases the lock unless that has happened already, and returns whether it had not. Does not block.
pub(crate) fn release_in_background(lock: &Arc<Acquisition>) -> bool {
    if mutant!(DropWithoutRelease) {
        return false;
    }
    {
        let mut state = lock.release_state();
        if !matches!(*state, ReleaseState::Idle) {
            return false;
        }
        *state = ReleaseState::Running(Waiters::default());
    }
    let release = Release::start(lock, false);
    lock.nodes
        .releases
        .run(&lock.runtime, lock.home, async move {
            // What it comes to is told to those who wait for it. Nodes that are late hold no place.
            release.run().await.ok();
        });
    true
}

/// The lock is no longer for its guard to release. Returns `false` if its release has begun.
pub(crate) fn leave_to_others(lock: &Acquisition) -> bool {
    let mut state = lock.release_state();
    let is_idle = matches!(*state, ReleaseState::Idle);
    if is_idle {
        *state = ReleaseState::Done { was_held: false };
    }
    is_idle
}

/// Adds a release at each of these nodes.
pub(crate) fn add_releases(lock: &Arc<Acquisition>, nodes: NodeSet, calls: &mut Calls) {
    lock.ledger().begins_release();
    // One command for all nodes, so that backends encode it only once.
    let command = lock.release_command(lock.token);
    for node in nodes.iter() {
        // First, so that an exchange that runs late finds nothing to exchange.
        let within = lock.release_within(node);
        for (part, token) in lock.old_at(node).iter().enumerate() {
            let command = lock.release_command(*token);
            calls.push(Call {
                part,
                within,
                ..Call::of_lock(lock, node, Purpose::ReleaseOld, command)
            });
        }
        calls.push(Call {
            within,
            ..Call::of_lock(lock, node, Purpose::Release, command.clone())
        });
    }
}

/// Takes an answer that nobody waits for: a grant counts if the lock is held, its fencing counter is brought
/// in step then, and is released if it came behind the release; a release without a definite answer is owed.
pub(crate) fn settle(done: Done, calls: &mut Calls) {
    let Some(lock) = &done.lock else { return };
    let now = || lock.runtime.now();
    let follow = match done.purpose {
        Purpose::Acquire | Purpose::Heal => {
            let answer = done.acquire_answer();
            let follow = lock.ledger().acquire_answered(done.node, &answer, now);
            confirm::late(lock, done.node, &answer, calls);
            follow
        }
        Purpose::Extend => {
            if let Ok(answer) = done.key_answer() {
                let now = now();
                lock.ledger().extend_answered(done.node, answer, now);
            }
            Follow::Nothing
        }
        Purpose::Release => {
            let answer = done.key_answer();
            lock.ledger().release_answered(done.node, &answer, now)
        }
        Purpose::ReleaseOld => {
            if done.key_answer().is_err() && !mutant!(DebtsForgotten) {
                let until = lock.ledger().owed_until(now());
                owe(lock, done.node, lock.old[done.part], until);
            }
            Follow::Nothing
        }
        Purpose::Inspect => {
            let found = done.inspected().ok().flatten();
            let token = found.and_then(|found| found.token);
            let granted = lock.ledger().granted();
            if token.as_deref() == Some(lock.token.as_bytes()) && !granted.contains(done.node) {
                lock.nodes.recognise(done.node, granted);
            }
            Follow::Nothing
        }
        Purpose::Confirm | Purpose::Other => Follow::Nothing,
    };
    carry_out(follow, lock, done.node, calls);
}

/// Does what has to follow an answer of a node.
pub(crate) fn carry_out(follow: Follow, lock: &Arc<Acquisition>, node: usize, calls: &mut Calls) {
    match follow {
        Follow::Nothing => {}
        Follow::Release => add_releases(lock, NodeSet::of(node), calls),
        Follow::Owe { until } => owe(lock, node, lock.token, until),
    }
}

fn owe(lock: &Acquisition, node: usize, token: Token, until: Duration) {
    let debt = lock.debt(token, until);
    events::owed(&lock.nodes.all[node].label, lock.name());
    debts::owe(&lock.nodes, &lock.runtime, node, debt);
}

/// Waits until the release has a definite outcome, or is for the caller to begin.
async fn claim(lock: &Acquisition) -> Option<Result<(), ReleaseError>> {
    loop {
        let running = match &mut *lock.release_state() {
            ReleaseState::Done { was_held: true } => return Some(Ok(())),
            ReleaseState::Done { was_held: false } => return Some(Err(ReleaseError::NotHeld)),
            ReleaseState::Running(waiters) => waiters.add(),
            idle => {
                *idle = ReleaseState::Running(Waiters::default());
                return None;
            }
        };
        let Err(oneshot::Canceled) = running.await;
    }
}

/// A release under way. If it is dropped, it goes on in the background.
struct Release {
    /// `None` once it has come to its end, or goes on elsewhere.
    fan_out: Option<FanOut<Releasing>>,
}

impl Release {
    fn start(lock: &Arc<Acquisition>, is_everywhere: bool) -> Self {
        let now = lock.look();
        lock.end_by_release(now);
        let releasing = Releasing::new(lock, is_everywhere);
        Self {
            fan_out: Some(FanOut::new(releasing, &lock.runtime, now)),
        }
    }

    async fn run(mut self) -> Result<(), ReleaseError> {
        let Some(fan_out) = &mut self.fan_out else {
            return Ok(());
        };
        let verdict = fan_out.decide().await;
        fan_out.operation.conclude(verdict);
        let result = fan_out.operation.result(verdict);
        // What the caller sends next comes behind every release.
        fan_out.take_ready().await;
        if fan_out.operation.is_everywhere {
            let until = fan_out.operation.last_answer_at;
            fan_out.finish_while(|_| true, until).await;
        }
        self.fan_out = None;
        result
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let Some(mut fan_out) = self.fan_out.take() else {
            return;
        };
        let runtime = Arc::clone(&fan_out.operation.lock.runtime);
        runtime.spawn(Box::pin(async move {
            let verdict = fan_out.decide().await;
            fan_out.operation.conclude(verdict);
        }));
    }
}

/// A release, by the votes of the nodes where a key may be.
struct Releasing {
    lock: Arc<Acquisition>,
    round: ReleaseRound,
    is_concluded: bool,
    /// All nodes are waited for, but none for longer than for any other command.
    is_everywhere: bool,
    /// By then each node has answered or failed to.
    last_answer_at: Duration,
}

impl Releasing {
    fn new(lock: &Arc<Acquisition>, is_everywhere: bool) -> Self {
        let (touched, released) = {
            let ledger = lock.ledger();
            (ledger.touched(), ledger.released())
        };
        Self {
            lock: Arc::clone(lock),
            round: ReleaseRound::new(lock.quorum(), touched, released),
            is_concluded: false,
            is_everywhere,
            last_answer_at: Duration::ZERO,
        }
    }

    /// How long the node is waited for.
    fn patience(&self, node: usize) -> Duration {
        match self.is_everywhere {
            true => self.lock.within(node),
            false => self.lock.release_within(node),
        }
    }

    /// Tells the outcome to those who ask next or wait already.
    fn conclude(&mut self, verdict: ReleaseVerdict) {
        if mem::replace(&mut self.is_concluded, true) {
            return;
        }
        let done = |was_held| ReleaseState::Done { was_held };
        let (next, outcome) = match verdict {
            ReleaseVerdict::Released => (done(true), ReleaseOutcome::Released),
            ReleaseVerdict::NotHeld => (done(false), ReleaseOutcome::NotHeld),
            ReleaseVerdict::Unavailable => (ReleaseState::Idle, ReleaseOutcome::Unavailable),
        };
        let lock = &self.lock;
        let before = mem::replace(&mut *lock.release_state(), next);
        let held = || lock.runtime.now().saturating_sub(lock.started);
        // A caller may try again and again during an outage.
        let is_told = outcome == ReleaseOutcome::Unavailable
            && lock.is_unreleased_told.swap(true, Ordering::Relaxed);
        if !is_told {
            lock.events().released(lock.name(), held, outcome);
        }
        // Wakes those who wait: foreign code, which must not run under the mutex.
        drop(before);
    }

    fn result(&self, verdict: ReleaseVerdict) -> Result<(), ReleaseError> {
        match verdict {
            ReleaseVerdict::Released => Ok(()),
            ReleaseVerdict::NotHeld => Err(ReleaseError::NotHeld),
            ReleaseVerdict::Unavailable => {
                let released = |answer: &KeyAnswer| *answer == KeyAnswer::Ours;
                Err(ReleaseError::Unavailable {
                    quorum: self.lock.quorum().needed(),
                    nodes: self.lock.nodes.reports(&self.round.ballots, released),
                })
            }
        }
    }
}

impl Operation for Releasing {
    type Verdict = ReleaseVerdict;

    fn step(&self) -> Step<ReleaseVerdict> {
        self.round.step()
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        for node in nodes.iter() {
            let patience = self.patience(node);
            self.round.ballots.ask(node, now, patience);
            self.last_answer_at = self.last_answer_at.max(now.saturating_add(patience));
        }
        add_releases(&self.lock, nodes, calls);
    }

    fn take(&mut self, done: Done, calls: &mut Calls) {
        if done.purpose != Purpose::Release {
            return settle(done, calls);
        }
        let answer = done.key_answer();
        let now = || self.lock.runtime.now();
        let follow = self.lock.ledger().release_answered(done.node, &answer, now);
        carry_out(follow, &self.lock, done.node, calls);
        self.round.handle_vote(done.node, answer);
    }

    fn pass_time(&mut self, now: Duration, _calls: &mut Calls) {
        for node in self.round.ballots.expire(now).iter() {
            self.lock.nodes.overdue(node, self.patience(node));
        }
    }

    /// A runtime that ended before the release was polled at all leaves it with nodes that were not asked.
    fn leave(&mut self, calls: &mut Calls) -> Rest {
        if let Step::Ask(nodes) = self.round.step() {
            add_releases(&self.lock, nodes, calls);
        }
        Box::new(settle)
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        // The runtime ended before the release did: others who wait for it may try for themselves.
        self.conclude(ReleaseVerdict::Unavailable);
    }
}
