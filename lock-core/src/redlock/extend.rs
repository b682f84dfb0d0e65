//! Extending a lock that is held, and setting its key again at nodes that forgot it.

use std::sync::Arc;
use std::time::Duration;

use super::acquisition::Acquisition;
use super::calls::{Call, Calls, Done, Purpose};
use super::fanout::{FanOut, Operation, Rest};
use super::protocol::{ExtendRound, ExtendVerdict, KeyAnswer, NodeSet, Step, Timing};
use super::release::settle;
use crate::error::ExtendError;
use crate::node::{Command, NodeError, Operation as NodeOperation};
use crate::ttl::Ttl;

pub(crate) async fn extend(lock: &Arc<Acquisition>, ttl: Duration) -> Result<(), ExtendError> {
    let timing = lock.nodes.settings.timing(ttl)?;
    lock.nodes.settings.check_guarded(ttl)?;
    let is_held = |lock: &Acquisition| !lock.remaining().is_zero() || mutant!(ExtendRevives);
    if !is_held(lock) {
        return Err(ExtendError::Lost);
    }
    let result = run(lock, timing, is_held).await;
    match &result {
        Ok(()) => lock.events().extended(lock.name(), || lock.remaining()),
        Err(error) => lock
            .events()
            .not_extended(lock.name(), lock.remaining(), error),
    }
    result
}

/// Finds out whether a lock that was handed over is held, by exchanging its token for a new one: of two
/// that resume one lease, a node gives its key to one.
pub(crate) async fn resume(lock: &Arc<Acquisition>) -> Result<(), ExtendError> {
    run(lock, lock.timing, |lock| !lock.ledger().is_over()).await
}

/// Adds a call that sets the key again, if the lock is held still. It is ours until `valid_until`.
pub(crate) fn set_again(
    lock: &Arc<Acquisition>,
    node: usize,
    timing: Timing,
    valid_until: Duration,
    calls: &mut Calls,
) {
    let now = lock.runtime.now();
    if now >= valid_until {
        return;
    }
    lock.ledger().heals(node, now);
    // By script, since another extension may have set the key again already: a plain SET would be
    // refused by it, as by a stranger's.
    let command = lock.copy_command(timing.ttl);
    calls.push(Call {
        within: lock.nodes.within_of(node, timing),
        ..Call::of_lock(lock, node, Purpose::Heal, command)
    });
}

/// Adds a call that exchanges the token of a lease where it stands still.
pub(crate) fn exchange_again(lock: &Arc<Acquisition>, node: usize, calls: &mut Calls) {
    if !lock.old_at(node).is_empty() {
        let command = lock.exchange_command(lock.timing.ttl);
        calls.push(Call::of_lock(lock, node, Purpose::Extend, command));
    }
}

/// Has the nodes exchange the new token for that of the lease again, in the background.
pub(crate) fn give_back(lock: Arc<Acquisition>) {
    let Some(lease) = lock.old.first() else {
        return;
    };
    let command = Command::from(lock.keys.exchange(*lease, Arc::new([lock.token]), Ttl::MIN));
    let runtime = Arc::clone(&lock.runtime);
    runtime.spawn(Box::pin(async move {
        let mut calls = Calls::default();
        for node in lock.ledger().touched().iter() {
            let command = command.clone();
            calls.push(Call::of_lock(&lock, node, Purpose::Other, command));
        }
        while calls.next().await.is_some() {}
    }));
}

/// One round. If it wins, the lock counts as extended only if it `is_held` still.
async fn run(
    lock: &Arc<Acquisition>,
    timing: Timing,
    is_held: impl Fn(&Acquisition) -> bool,
) -> Result<(), ExtendError> {
    lock.ledger().note_ttl(timing.ttl.as_duration());
    let settings = &lock.nodes.settings;
    let began = settings.beginning(&*lock.runtime, lock.runtime.now());
    let started = began.now;
    let extending = Extending {
        lock: Arc::clone(lock),
        round: ExtendRound::new(lock.quorum()),
        timing,
        started,
        won_until: None,
    };
    let mut fan_out = FanOut::new(extending, &lock.runtime, started);
    match fan_out.decide().await {
        // A lock whose validity ended meanwhile, or that was released, is not revived.
        ExtendVerdict::Extended if !is_held(lock) => Err(ExtendError::Lost),
        ExtendVerdict::Extended => {
            let started = match mutant!(ExtendFromReplies) {
                true => lock.runtime.now(),
                false => started,
            };
            let valid_until = started.saturating_add(timing.validity);
            let now = lock.runtime.now();
            if !lock.ledger().is_extended(began, valid_until, now) {
                return Err(ExtendError::Lost);
            }
            fan_out.add(|extending, calls| extending.heal(valid_until, calls));
            fan_out.take_ready().await;
            Ok(())
        }
        ExtendVerdict::Lost => {
            lock.lose();
            Err(ExtendError::Lost)
        }
        ExtendVerdict::Unavailable => {
            let ballots = &fan_out.operation.round.ballots;
            let extended = |answer: &KeyAnswer| *answer == KeyAnswer::Ours;
            Err(ExtendError::Unavailable {
                quorum: lock.quorum().needed(),
                nodes: lock.nodes.reports(ballots, extended),
            })
        }
    }
}

/// An extension, by the votes of all nodes.
struct Extending {
    lock: Arc<Acquisition>,
    round: ExtendRound,
    timing: Timing,
    started: Duration,
    /// Until when the lock is ours, once the round has won its quorum.
    won_until: Option<Duration>,
}

impl Extending {
    /// The round has won its quorum: sets the key again where it was forgotten. Those nodes vote
    /// from the next round on. Nodes that have not answered yet are healed when they do, or the
    /// slowest one never would be.
    fn heal(&mut self, valid_until: Duration, calls: &mut Calls) {
        self.won_until = Some(valid_until);
        for node in self.round.missing().iter() {
            set_again(&self.lock, node, self.timing, valid_until, calls);
        }
    }
}

impl Operation for Extending {
    type Verdict = ExtendVerdict;

    fn step(&self) -> Step<ExtendVerdict> {
        self.round.step()
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        let entries = self.lock.keys.entries(self.lock.token, self.timing.ttl);
        let command = Command::from(NodeOperation::Extend {
            entries: entries.collect(),
        });
        let is_of_lease = !self.lock.old.is_empty();
        let exchange = is_of_lease.then(|| self.lock.exchange_command(self.timing.ttl));
        for node in nodes.iter() {
            let within = self.lock.nodes.within_of(node, self.timing);
            self.round.ballots.ask(node, now, within);
            let exchange = exchange
                .as_ref()
                .filter(|_| !self.lock.old_at(node).is_empty());
            let command = exchange.unwrap_or(&command);
            calls.push(Call {
                within,
                ..Call::of_lock(&self.lock, node, Purpose::Extend, command.clone())
            });
        }
    }

    fn take(&mut self, done: Done, calls: &mut Calls) {
        if done.purpose != Purpose::Extend {
            return settle(done, calls);
        }
        let answer = done.key_answer();
        let is_missing = matches!(answer, Ok(KeyAnswer::Missing));
        let answer = answer.and_then(|answer| {
            let counts = self
                .lock
                .ledger()
                .extend_answered(done.node, answer, self.started);
            match answer {
                KeyAnswer::Ours if !counts => Err(NodeError::connection(
                    "not counted yet: the command that set the key had no answer",
                )),
                _ => Ok(answer),
            }
        });
        self.round.ballots.record(done.node, answer);
        if is_missing && let Some(won_until) = self.won_until {
            set_again(&self.lock, done.node, self.timing, won_until, calls);
        }
    }

    fn pass_time(&mut self, now: Duration, _calls: &mut Calls) {
        for node in self.round.ballots.expire(now).iter() {
            let within = self.lock.nodes.within_of(node, self.timing);
            self.lock.nodes.overdue(node, within);
        }
    }

    fn leave(&mut self, _calls: &mut Calls) -> Rest {
        let Some(won_until) = self.won_until else {
            return Box::new(settle);
        };
        let (lock, timing, started) = (Arc::clone(&self.lock), self.timing, self.started);
        Box::new(move |done, calls| {
            if done.purpose != Purpose::Extend {
                return settle(done, calls);
            }
            if let Ok(answer) = done.key_answer() {
                lock.ledger().extend_answered(done.node, answer, started);
                if answer == KeyAnswer::Missing {
                    set_again(&lock, done.node, timing, won_until, calls);
                }
            }
        })
    }
}
