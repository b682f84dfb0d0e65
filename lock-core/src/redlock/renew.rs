//! Automatic extension: one task on each runtime for all locks of a `Redlock`, and one command to each
//! node for many of them.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::acquisition::Acquisition;
use super::calls::{Call, Calls, Done, Probe};
use super::debts;
use super::engine::Engine;
use super::extend::{exchange_again, set_again};
use super::fanout::{FanOut, Operation, Rest};
use super::node::Nodes;
use super::protocol::{
    Admission, ExtendVerdict, KeyAnswer, KeyVote, Moment, NodeSet, Renewal, RenewalRound, Step,
};
use super::release::settle;
use super::renewals::{Due, Renewable};
use crate::events;
use crate::node::{Command, NodeError, Operation as NodeOperation};
use crate::runtime::{BoxFuture, Home, Runtime};
use crate::slot::slot;

/// Extends the lock from now on, until it is released, lost, or held for the longest time.
pub(crate) fn start(engine: &Arc<Engine>, lock: &Arc<Acquisition>, renewal: Renewal) {
    lock.renew(&engine.renewals, renewal);
    serve(engine, &lock.runtime, lock.home);
}

/// Goes on with what tasks in the background left when their runtime ended: locks to extend, and owed
/// releases. Costs next to nothing if none did.
pub(crate) fn resume(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>) {
    if !engine.nodes.take_left_work() {
        return;
    }
    debts::resume(&engine.nodes, runtime);
    serve(engine, runtime, engine.settings().home());
}

/// Sees to it that what is to be extended is extended on this runtime, if not elsewhere before.
fn serve(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>, home: Home) {
    if !engine.renewals.take_over(home) {
        return;
    }
    let was_taken = Arc::new(AtomicBool::new(false));
    let renewer = Renewer {
        engine: Arc::clone(engine),
        runtime: Arc::clone(runtime),
        home,
        rounds: FuturesUnordered::new(),
        timer: None,
        is_done: false,
        was_taken: Arc::clone(&was_taken),
    };
    runtime.spawn(Box::pin(renewer.run()));
    was_taken.store(true, Ordering::SeqCst);
}

/// The task on one runtime that extends the locks of a `Redlock`. It ends when there are none.
struct Renewer {
    engine: Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    home: Home,
    rounds: FuturesUnordered<BoxFuture<'static, ()>>,
    timer: Option<(Duration, BoxFuture<'static, ()>)>,
    /// It has left the queue: another task may serve it by now.
    is_done: bool,
    /// Its runtime has taken it, and has not dropped it at once as one that has ended does.
    was_taken: Arc<AtomicBool>,
}

impl Renewer {
    async fn run(mut self) {
        loop {
            let now = self.runtime.now();
            loop {
                let batch = self.engine.renewals.take_due(now);
                if batch.is_empty() {
                    break;
                }
                for locks in self.by_command(batch) {
                    let round = renew(Arc::clone(&self.engine), Arc::clone(&self.runtime), locks);
                    self.rounds.push(Box::pin(round));
                }
            }
            if poll_fn(|cx| self.poll_work(cx)).await {
                return;
            }
        }
    }

    /// Locks that go into one command: all, or those of one slot where nodes of a cluster ask for it, or a
    /// single one.
    fn by_command(&self, locks: Vec<Due<Acquisition>>) -> Vec<Vec<Due<Acquisition>>> {
        if self.engine.settings().one_key_per_command {
            return locks.into_iter().map(|lock| vec![lock]).collect();
        }
        if !self.engine.is_by_slot.load(Ordering::Relaxed) {
            return vec![locks];
        }
        let mut slots = BTreeMap::<u16, Vec<_>>::new();
        for lock in locks {
            let slot = slot(lock.item.keys.first());
            slots.entry(slot).or_default().push(lock);
        }
        slots.into_values().collect()
    }

    /// Ready with whether all is done, or when there may be something to do.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while let Poll::Ready(Some(())) = self.rounds.poll_next_unpin(cx) {}
        let may_end = self.rounds.is_empty();
        let renewals = &self.engine.renewals;
        let Some(due) = renewals.wait(self.home, cx.waker().clone(), may_end) else {
            self.is_done = true;
            return Poll::Ready(true);
        };
        if self.timer.as_ref().is_none_or(|(until, _)| *until != due) {
            let left = due.saturating_sub(self.runtime.now());
            self.timer = Some((due, self.runtime.sleep(left)));
        }
        let timer = self.timer.as_mut().map(|(_, sleep)| sleep.as_mut());
        if timer.is_none_or(|sleep| sleep.poll(cx).is_pending()) {
            return Poll::Pending;
        }
        self.timer = None;
        Poll::Ready(false)
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // Its runtime ended. That of another lock goes on, or the next use of the `Redlock`.
        let waiting = self.engine.renewals.leave(self.home);
        self.engine.nodes.leave_work();
        // If the runtime did not even take it, the caller of `spawn` goes on.
        if self.was_taken.load(Ordering::SeqCst) {
            for lock in waiting.into_iter().filter(|lock| lock.home != self.home) {
                serve(&self.engine, &lock.runtime, lock.home);
            }
        }
    }
}

/// Extends the locks once, and sees to it that each is extended again when it is due.
async fn renew(engine: Arc<Engine>, runtime: Arc<dyn Runtime>, due: Vec<Due<Acquisition>>) {
    let began = engine.settings().beginning(&*runtime, runtime.now());
    // Nothing is sent for what has ended: it would only keep others out.
    let due = due.into_iter().filter(|due| is_held(&due.item));
    let due = due.map(|due| (due.item, due.round));
    let (locks, numbers) = due.unzip::<_, _, Vec<_>, Vec<_>>();
    if locks.is_empty() {
        return;
    }
    let renewing = Renewing::new(engine, Arc::clone(&runtime), locks, numbers, began);
    let mut fan_out = FanOut::new(renewing, &runtime, began.now);
    fan_out.decide().await;
    fan_out.operation.trace();
    // Late answers count for the next round.
    fan_out.finish().await;
}

/// Returns whether the lock is held still; the loss of one that has run out is told.
fn is_held(lock: &Acquisition) -> bool {
    if !lock.remaining().is_zero() || mutant!(RenewalRevives) {
        return true;
    }
    let is_over = lock.is_over();
    if mutant!(RenewalOutlivesRelease) && is_over {
        return true;
    }
    if !is_over {
        lock.expired();
    }
    lock.stop_renewal();
    false
}

/// One round of extensions of many locks.
struct Renewing {
    engine: Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    locks: Vec<Arc<Acquisition>>,
    /// Which round this is for each of them.
    numbers: Vec<u64>,
    /// The locks of each command, by their places. The first one has all; a node that refuses one for the
    /// sake of some key gets two of half the locks.
    parts: Vec<Vec<usize>>,
    /// What each node has said so far, while it has more parts to answer.
    partly: Vec<Partly>,
    round: RenewalRound,
    /// The locks whose verdict has been carried out, each with the end of the validity that it got.
    decided: Vec<Option<Duration>>,
    /// The first node of a cluster has refused keys of several slots: they are tried again at once.
    is_refused: bool,
    began: Moment,
    node_timeout: Duration,
}

/// The answers of one node to the parts of a round.
#[derive(Clone, Debug, Default)]
struct Partly {
    votes: Vec<KeyVote>,
    /// How many parts have no answer yet.
    open: usize,
}

impl Renewing {
    fn new(
        engine: Arc<Engine>,
        runtime: Arc<dyn Runtime>,
        locks: Vec<Arc<Acquisition>>,
        numbers: Vec<u64>,
        began: Moment,
    ) -> Self {
        let partly = Partly {
            votes: vec![None; locks.len()],
            open: 1,
        };
        Self {
            decided: vec![None; locks.len()],
            is_refused: false,
            parts: vec![(0..locks.len()).collect()],
            partly: vec![partly; engine.nodes.all.len()],
            round: RenewalRound::new(engine.nodes.quorum()),
            node_timeout: locks[0].timing.node_timeout,
            engine,
            runtime,
            locks,
            numbers,
            began,
        }
    }

    fn nodes(&self) -> &Arc<Nodes> {
        &self.engine.nodes
    }

    fn trace(&self) {
        let extended = |until: &&Option<Duration>| until.is_some_and(|until| !until.is_zero());
        let took = self.runtime.now().saturating_sub(self.began.now);
        events::extended_together(
            self.locks.len(),
            self.decided.iter().filter(extended).count(),
            took,
        );
    }

    /// The command that extends these locks.
    fn command(&self, places: &[usize]) -> Command {
        let entries = |place: &usize| {
            let lock = &self.locks[*place];
            let ttl = lock.timing.ttl;
            lock.keys.entries(lock.token, ttl).collect::<Vec<_>>()
        };
        Command::from(NodeOperation::Extend {
            entries: places.iter().flat_map(entries).collect(),
        })
    }

    /// Has a node asked once more for the locks of a part that it has refused, by two commands.
    fn halve(&mut self, node: usize, part: usize, calls: &mut Calls) {
        let mut places = self.parts[part].clone();
        // Nothing is sent for what has ended meanwhile.
        places.retain(|place| !self.locks[*place].ledger().is_over());
        let (one, other) = places.split_at(places.len() / 2);
        for half in [one, other].into_iter().filter(|half| !half.is_empty()) {
            calls.push(Call {
                part: self.parts.len(),
                ..Call::other(self.nodes(), node, self.command(half), self.node_timeout)
            });
            self.parts.push(half.to_vec());
            self.partly[node].open += 1;
        }
    }

    /// Takes the answers of a node about a part. They count for the next round where this one is decided.
    fn take_votes(&mut self, node: usize, part: usize, answers: &[KeyVote], calls: &mut Calls) {
        let mut rest = answers;
        for place in self.parts[part].clone() {
            let (lock, decided) = (&self.locks[place], self.decided[place]);
            // A lock that stands for several keys has to have all of them.
            let Some(own) = rest.split_off(..lock.keys.as_slice().len()) else {
                break;
            };
            let worse = |one: KeyVote, other: KeyVote| Some(one?.worse(other?));
            let Some(answer) = own.iter().copied().reduce(worse).flatten() else {
                continue;
            };
            let now = match decided {
                None => self.began.now,
                Some(_) => self.runtime.now(),
            };
            let counts = lock.ledger().extend_answered(node, answer, now);
            let vote = (answer != KeyAnswer::Ours || counts).then_some(answer);
            self.partly[node].votes[place] = vote;
            if answer == KeyAnswer::Foreign {
                exchange_again(lock, node, calls);
            }
            if answer == KeyAnswer::Missing
                && let Some(valid_until) = decided.filter(|until| !until.is_zero())
            {
                set_again(lock, node, lock.timing, valid_until, calls);
            }
        }
    }

    /// Carries out the verdicts that are certain by now.
    fn carry_out(&mut self, calls: &mut Calls) {
        for place in 0..self.locks.len() {
            if self.decided[place].is_none()
                && let Some(verdict) = self.round.verdict(place)
            {
                self.decided[place] = Some(self.conclude(place, verdict, calls));
            }
        }
    }

    /// Carries one verdict out. Returns until when the lock is ours by it.
    fn conclude(&self, place: usize, verdict: ExtendVerdict, calls: &mut Calls) -> Duration {
        let lock = &self.locks[place];
        let now = lock.look();
        let Some(renewed) = lock.renewed() else {
            return Duration::ZERO;
        };
        // What ended meanwhile is not revived.
        let left = lock.remaining_at(now);
        if left.is_zero() && !mutant!(RenewalRevives) {
            is_held(lock);
            return Duration::ZERO;
        }
        match verdict {
            ExtendVerdict::Extended => {
                let started = match mutant!(RenewalFromReplies) {
                    true => now,
                    false => self.began.now,
                };
                let valid_until = started.saturating_add(lock.timing.validity);
                let now = self.runtime.now();
                if !lock.ledger().is_extended(self.began, valid_until, now) {
                    lock.expired();
                    lock.stop_renewal();
                    return Duration::ZERO;
                }
                lock.events().extended(lock.name(), || lock.remaining());
                for node in self.round.missing(place).iter() {
                    set_again(lock, node, lock.timing, valid_until, calls);
                }
                self.put(
                    place,
                    self.began.now.saturating_add(renewed.renewal.interval),
                );
                valid_until
            }
            ExtendVerdict::Lost => {
                lock.lose();
                Duration::ZERO
            }
            ExtendVerdict::Unavailable if self.is_refused => {
                self.put(place, now);
                Duration::ZERO
            }
            ExtendVerdict::Unavailable => {
                lock.events()
                    .not_extended(lock.name(), left, &"too few nodes answered");
                let retry_at = renewed.renewal.retry_at(now, left, self.node_timeout);
                match retry_at.filter(|_| !mutant!(RenewalNeverRetries)) {
                    Some(at) => self.put(place, at),
                    None => lock.stop_renewal(),
                }
                Duration::ZERO
            }
        }
    }

    fn put(&self, place: usize, due: Duration) {
        let renewals = &self.engine.renewals;
        renewals.put(&self.locks[place], due, self.numbers[place]);
    }
}

impl Operation for Renewing {
    type Verdict = ();

    fn step(&self) -> Step<()> {
        let unasked = self.round.ballots.unasked();
        if !unasked.is_empty() {
            return Step::Ask(unasked);
        }
        match self.round.ballots.next_deadline() {
            Some(until) if self.decided.iter().any(Option::is_none) => Step::Wait(until),
            _ => Step::Decided(()),
        }
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        // One command for all nodes, so that backends encode it only once.
        let command = self.command(&self.parts[0]);
        for node in nodes.iter() {
            let within = self.nodes().within(node, self.node_timeout);
            let admission = self.nodes().all[node].admit(now, within);
            let probe = match admission {
                Admission::Go => None,
                Admission::Probe => Some(Probe::new(self.nodes(), node)),
                Admission::Skip => {
                    // One command at a time finds out how it is: no more wait for it, however long.
                    let error = NodeError::not_sent("not asked: an earlier call has had no answer");
                    self.round.ballots.record(node, Err(error));
                    continue;
                }
            };
            // A node that has never answered has longer to connect. Another try is not put off for it.
            let patience = match mutant!(RenewalWaitsForConnects) {
                true => within,
                false => self.node_timeout,
            };
            self.round.ballots.ask(node, now, patience);
            calls.push(Call {
                probe,
                ..Call::other(self.nodes(), node, command.clone(), within)
            });
        }
        self.carry_out(calls);
    }

    fn take(&mut self, done: Done, calls: &mut Calls) {
        // Of a key that was set again.
        if done.lock.is_some() {
            return settle(done, calls);
        }
        let (node, part) = (done.node, done.part);
        self.partly[node].open -= 1;
        let vote = done.key_votes();
        match &vote {
            Ok(answers) => self.take_votes(node, part, answers, calls),
            Err(error) if error.is_cross_slot() => {
                self.is_refused |= !self.engine.is_by_slot.swap(true, Ordering::Relaxed);
            }
            Err(error) if error.is_of_one_key() && self.parts[part].len() > 1 => {
                self.halve(node, part, calls);
            }
            Err(_) => {}
        }
        if self.partly[node].open == 0 {
            let votes = &self.partly[node].votes;
            let has_some = votes.iter().any(Option::is_some);
            let votes = match vote {
                Err(error) if !has_some => Err(error),
                _ => Ok(votes.clone()),
            };
            self.round.ballots.record(node, votes);
            self.carry_out(calls);
        }
    }

    fn pass_time(&mut self, now: Duration, calls: &mut Calls) {
        for node in self.round.ballots.expire(now).iter() {
            // What it has said of some locks counts, though it was asked for others once more.
            let votes = &self.partly[node].votes;
            if votes.iter().any(Option::is_some) {
                self.round.ballots.record(node, Ok(votes.clone()));
                continue;
            }
            // The call of one that connects says so itself when its time is over.
            if self.nodes().all[node].has_answered() {
                self.nodes().overdue(node, self.node_timeout);
            }
        }
        self.carry_out(calls);
    }

    fn leave(&mut self, _calls: &mut Calls) -> Rest {
        Box::new(settle)
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        // The runtime ended in the middle of the round: what is undecided is due again.
        for (place, decided) in self.decided.iter().enumerate() {
            if decided.is_none() {
                self.put(place, self.began.now);
            }
        }
    }
}
