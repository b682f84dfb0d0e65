//! One round of automatic extensions: many locks, one command to each node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::attempt::Attempt;
use super::calls::Calls;
use super::engine::Engine;
use super::member::Member;
use super::protocol::{Admission, ExtendVerdict, KeyAnswer, KeyVote, NodeSet, RenewalRound, slot};
use super::{heal, renewer};
use crate::error::Loss;
use crate::node::{Command, ExtendEntry, NodeError, Operation};
use crate::runtime::{BoxFuture, Runtime};
use crate::trace;

type Entries = Arc<[ExtendEntry]>;
type Answers = Result<Vec<KeyAnswer>, NodeError>;

/// A round under way.
struct Renewing {
    runtime: Arc<dyn Runtime>,
    locks: Vec<Arc<Attempt>>,
    round: RenewalRound,
    /// The locks whose verdict has been carried out, each with the end of the validity that it got.
    decided: Vec<Option<Duration>>,
    started: Duration,
    node_timeout: Duration,
}

/// Extends the locks, and sees to it that each is extended again when it is due.
pub(super) async fn run(
    engine: Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    mut locks: Vec<Arc<Attempt>>,
) {
    let started = runtime.now();
    // Nothing is sent for what has ended: it would only keep others out.
    locks.retain(|lock| goes_on(lock, started));
    if locks.is_empty() {
        return;
    }
    let node_timeout = locks[0].timing.node_timeout;
    let entries = |lock: &Arc<Attempt>| {
        let ttl = lock.timing.ttl;
        lock.keys.entries(lock.token, ttl).collect::<Vec<_>>()
    };
    let entries: Entries = locks.iter().flat_map(entries).collect();
    // One command for all nodes, so that backends pack it only once.
    let command = Command::from(Operation::Extend {
        entries: Arc::clone(&entries),
    });
    let mut renewing = Renewing {
        decided: vec![None; locks.len()],
        round: RenewalRound::new(engine.settings.quorum),
        runtime,
        locks,
        started,
        node_timeout,
    };
    let mut calls = FuturesUnordered::<BoxFuture<'static, (usize, Answers)>>::new();
    for node in NodeSet::all(engine.members.len()).iter() {
        let member = &engine.members[node];
        let within = member.within(node_timeout, engine.settings.connect_timeout);
        let admission = member.admit(started, within);
        if admission == Admission::Skip {
            // One command at a time finds out how it is: no more wait for it, however long.
            let error = NodeError::not_sent("not asked: an earlier call has had no answer");
            renewing.round.ballots.record(node, Err(error));
            continue;
        }
        // A node that has never answered has longer to connect. Another try is not put off for it.
        let patience = match mutant!(RenewalWaitsForConnects) {
            true => within,
            false => node_timeout,
        };
        renewing.round.ballots.ask(node, started, patience);
        let (engine, entries, command) =
            (Arc::clone(&engine), Arc::clone(&entries), command.clone());
        calls.push(Box::pin(async move {
            let member = &engine.members[node];
            let answers = ask(member, &entries, &command, within).await;
            if admission == Admission::Probe {
                member.probe_ended();
            }
            (node, answers)
        }));
    }
    renewing.decide(&engine, &mut calls).await;
    renewing.trace();
    // Calls are never dropped half-way, and late answers count for the next round.
    while let Some((node, answers)) = calls.next().await {
        renewing.take_late(node, answers);
    }
}

/// Whether the lock is held still; one that has run out is told of.
fn goes_on(lock: &Attempt, now: Duration) -> bool {
    if !lock.remaining_at(now).is_zero() || mutant!(RenewalRevives) {
        return true;
    }
    if mutant!(RenewalOutlivesRelease) && lock.is_over() {
        return true;
    }
    if !lock.is_over() {
        lock.tell_of(Loss::Expired);
    }
    false
}

impl Drop for Renewing {
    fn drop(&mut self) {
        // The runtime ended in the middle of the round: what is undecided is due again.
        for (lock, decided) in self.locks.iter().zip(&self.decided) {
            if decided.is_none() {
                renewer::put(lock, self.started);
            }
        }
    }
}

impl Renewing {
    /// Takes votes until there is a verdict on each lock.
    async fn decide(
        &mut self,
        engine: &Engine,
        calls: &mut FuturesUnordered<BoxFuture<'static, (usize, Answers)>>,
    ) {
        loop {
            self.carry_out();
            let Some(until) = self.round.ballots.next_deadline() else {
                return;
            };
            if self.decided.iter().all(Option::is_some) {
                return;
            }
            let left = until.saturating_sub(self.runtime.now());
            match select(calls.next(), self.runtime.sleep(left)).await {
                Either::Left((Some((node, answers)), _)) => {
                    let votes = answers.map(|answers| self.votes(node, &answers));
                    self.round.ballots.record(node, votes);
                }
                Either::Left((None, _)) => return,
                Either::Right(((), _)) => {
                    let now = self.runtime.now().max(until);
                    for node in self.round.ballots.expire(now).iter() {
                        let member = &engine.members[node];
                        // The call of one that connects says so itself when its time is over.
                        if member.has_answered() {
                            member.overdue(self.node_timeout);
                        }
                    }
                }
            }
        }
    }

    fn trace(&self) {
        let extended = |until: &&Option<Duration>| until.is_some_and(|until| !until.is_zero());
        let took = self.runtime.now().saturating_sub(self.started);
        trace::renewed(
            self.locks.len(),
            self.decided.iter().filter(extended).count(),
            took,
        );
    }

    /// What of a node's answers counts.
    fn votes(&self, node: usize, answers: &[KeyAnswer]) -> Vec<KeyVote> {
        let votes = self.of_locks(answers).map(|(lock, answer)| {
            let is_sure = lock.note_extend(node, answer, self.started);
            (answer != KeyAnswer::Ours || is_sure).then_some(answer)
        });
        votes.collect()
    }

    /// The answers by lock: one that stands for several keys has to have all of them.
    fn of_locks(
        &self,
        mut answers: &[KeyAnswer],
    ) -> impl Iterator<Item = (&Arc<Attempt>, KeyAnswer)> {
        self.locks.iter().filter_map(move |lock| {
            let own = answers.split_off(..lock.keys.as_slice().len())?;
            Some((lock, own.iter().copied().reduce(KeyAnswer::worse)?))
        })
    }

    /// Does what the verdicts ask for that are certain by now.
    fn carry_out(&mut self) {
        for place in 0..self.locks.len() {
            if self.decided[place].is_some() {
                continue;
            }
            if let Some(verdict) = self.round.verdict(place) {
                self.decided[place] = Some(self.conclude(place, verdict));
            }
        }
    }

    /// Carries one verdict out, and says until when the lock is ours by it.
    fn conclude(&self, place: usize, verdict: ExtendVerdict) -> Duration {
        let lock = &self.locks[place];
        let now = self.runtime.now();
        let left = lock.remaining_at(now);
        let Some(renewed) = lock.renewed.get() else {
            return Duration::ZERO;
        };
        match verdict {
            // What ended meanwhile is not revived.
            _ if left.is_zero() && !mutant!(RenewalRevives) => {
                if !lock.is_over() {
                    lock.tell_of(Loss::Expired);
                }
                Duration::ZERO
            }
            ExtendVerdict::Extended => {
                let started = match mutant!(RenewalFromReplies) {
                    true => now,
                    false => self.started,
                };
                let valid_until = started.saturating_add(lock.timing.validity);
                lock.extend_validity(valid_until);
                let missing = self.round.missing(place);
                if !missing.is_empty() {
                    set_again(lock, missing, valid_until);
                }
                renewer::put(lock, self.started.saturating_add(renewed.renewal.interval));
                valid_until
            }
            ExtendVerdict::Lost => {
                lock.lose();
                Duration::ZERO
            }
            ExtendVerdict::Unavailable => {
                let retry_at = renewed.renewal.retry_at(now, left, self.node_timeout);
                if let Some(at) = retry_at.filter(|_| !mutant!(RenewalNeverRetries)) {
                    renewer::put(lock, at);
                }
                Duration::ZERO
            }
        }
    }

    /// An answer that came when the verdicts were certain.
    fn take_late(&self, node: usize, answers: Answers) {
        // A failure tells nothing about any lock.
        let Ok(answers) = answers else {
            return;
        };
        for (place, (lock, answer)) in self.of_locks(&answers).enumerate() {
            lock.note_extend(node, answer, self.runtime.now());
            if answer == KeyAnswer::Missing
                && let Some(valid_until) = self.decided[place].filter(|until| !until.is_zero())
            {
                set_again(lock, NodeSet::of(node), valid_until);
            }
        }
    }
}

/// Sets the key of a lock again where it was forgotten. Those nodes vote from the next round on.
fn set_again(lock: &Arc<Attempt>, nodes: NodeSet, valid_until: Duration) {
    let node_timeout = lock.timing.node_timeout;
    let mut calls = Calls::new(Arc::clone(lock), lock.runtime.now(), node_timeout);
    for node in nodes.iter() {
        heal::set_again(&mut calls, node, lock.timing, valid_until);
    }
    // Dropped, they are driven in the background.
    drop(calls);
}

/// Asks one node about all locks.
async fn ask(member: &Member, entries: &Entries, command: &Command, within: Duration) -> Answers {
    if !member.wants_one_slot.load(Ordering::Relaxed) {
        match extend(member, command, entries.len(), within).await {
            // Nothing ran. From now on it is asked slot by slot.
            Err(error) if error.code() == Some("CROSSSLOT") => {
                member.wants_one_slot.store(true, Ordering::Relaxed);
            }
            answers => return answers,
        }
    }
    let mut slots = BTreeMap::<u16, Vec<usize>>::new();
    for (place, entry) in entries.iter().enumerate() {
        slots.entry(slot(&entry.key)).or_default().push(place);
    }
    let calls = slots.into_values().map(|places| async move {
        let entries = places.iter().map(|place| entries[*place].clone()).collect();
        let command = Command::from(Operation::Extend { entries });
        let answers = extend(member, &command, places.len(), within).await?;
        Ok::<_, NodeError>(places.into_iter().zip(answers).collect::<Vec<_>>())
    });
    let mut answers = vec![KeyAnswer::Missing; entries.len()];
    for answered in join_all(calls).await {
        for (place, answer) in answered? {
            answers[place] = answer;
        }
    }
    Ok(answers)
}

/// Sends one command, by digest first.
async fn extend(member: &Member, command: &Command, count: usize, within: Duration) -> Answers {
    let mut result = member.execute(command, within).await;
    if result.as_ref().is_err_and(NodeError::is_no_script) {
        // Boxed, as all rare things, so that a call stays small.
        let command = command.with_source();
        result = async { member.execute(&command, within).await }
            .boxed()
            .await;
    }
    KeyAnswer::read_all(command.operation(), &result?, count)
}
