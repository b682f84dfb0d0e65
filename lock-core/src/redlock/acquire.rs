//! Acquiring: attempts until one is won or there is no point in another.

use std::cell::LazyCell;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::{Instrument, Level};

use super::acquisition::Acquisition;
use super::calls::{Call, Calls, Done, Probe, Purpose};
use super::engine::Engine;
use super::fanout::{FanOut, Operation, Rest};
use super::held::Held;
use super::protocol::{
    AcquireAnswer, AcquireRound, Admission, Asking, Next, NodeSet, Patience, Step, Tell, Verdict,
    Wait, anchor_order,
};
use super::release::{add_releases, carry_out, settle};
use super::settings::Plan;
use super::{debts, renew};
use crate::error::{AcquireError, Contended, TooSlow, Unavailable};
use crate::held::HeldLock;
use crate::node::{Command, NodeError, Token};
use crate::request::LockRequest;
use crate::runtime::Runtime;
use crate::trace;

/// All of the request in one round. What is held needs a guard at once, or nobody releases it.
pub(crate) async fn try_one(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<Held>, AcquireError> {
    let plan = engine.settings().plan(request)?;
    let acquire = Acquire::new(engine, plan, |_| Patience::Try);
    match acquire.attempts().await {
        Ok(held) => Ok(Some(held)),
        Err(AcquireError::Contended(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same, and waits.
pub(crate) async fn one(engine: &Arc<Engine>, request: &LockRequest) -> Result<Held, AcquireError> {
    let plan = engine.settings().plan(request)?;
    let patience = |now| engine.settings().patience(request, now);
    Acquire::new(engine, plan, patience).attempts().await
}

/// How many tokens of its last attempts a call remembers, to know its own keys again.
const OWN_TOKENS: usize = 32;

/// One call, with all its attempts.
struct Acquire<'a> {
    engine: &'a Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    /// Boxed, so that the future of a call stays below 1 KiB, up to which glibc's allocator keeps
    /// blocks at hand for each thread.
    plan: Box<Plan>,
    patience: Patience,
    started: Duration,
}

/// An attempt that was not won.
struct Defeat {
    round: AcquireRound,
    token: Token,
    verdict: Verdict,
    took: Duration,
}

impl<'a> Acquire<'a> {
    /// `patience` is that of who begins at a certain moment.
    fn new(
        engine: &'a Arc<Engine>,
        plan: Plan,
        patience: impl FnOnce(Duration) -> Patience,
    ) -> Self {
        let runtime = engine.settings().runtime();
        debts::resume(&engine.nodes, &runtime);
        renew::resume(engine, &runtime);
        let started = runtime.now();
        Self {
            engine,
            started,
            runtime,
            plan: Box::new(plan),
            patience: patience(started),
        }
    }

    /// All of it, in a span if somebody reads it: only then is there room for one.
    async fn attempts(&self) -> Result<Held, AcquireError> {
        if tracing::enabled!(target: "lock_core", Level::DEBUG) {
            return Box::pin(self.traced()).await;
        }
        self.run().await
    }

    async fn traced(&self) -> Result<Held, AcquireError> {
        let resource = &self.plan.resource;
        let span = tracing::debug_span!(
            target: "lock_core",
            "acquire",
            resource = %trace::Name(resource)
        );
        let run = async {
            let result = self.run().await;
            if let Err(error) = &result {
                trace::not_acquired(resource, error);
            }
            result
        };
        run.instrument(span).await
    }

    async fn run(&self) -> Result<Held, AcquireError> {
        let mut wait = Wait::new(self.patience, self.started, self.plan.timing.node_timeout);
        let mut asking = wait.first();
        let mut last_whole = None;
        let mut own = Vec::new();
        let mut now = self.started;
        loop {
            self.check_open()?;
            let defeat = match self.attempt(asking, now, &own).await {
                Ok(held) => {
                    let waited = held.lock().started.saturating_sub(self.started);
                    trace::acquired(&self.plan.resource, wait.attempts(), waited, held.votes());
                    return Ok(held);
                }
                Err(defeat) => defeat,
            };
            self.check_open()?;
            own.push(defeat.token);
            if own.len() > OWN_TOKENS {
                own.remove(0);
            }
            let next = wait.after(&defeat.verdict, self.runtime.now(), self.chance());
            let defeat = match last_whole {
                Some(last_whole) if !defeat.round.is_whole() => last_whole,
                _ => defeat,
            };
            match next {
                Next::Attempt { at, asking: how } => {
                    self.pause_until(at).await;
                    now = self.runtime.now();
                    asking = how;
                    last_whole = Some(defeat);
                }
                Next::GiveUp => return Err(self.error(&defeat, wait.attempts())),
            }
        }
    }

    /// Whether the lock was not shut down.
    fn check_open(&self) -> Result<(), AcquireError> {
        if self.engine.registry.is_shut() {
            return Err(AcquireError::ShutDown);
        }
        Ok(())
    }

    /// One attempt, at `now`. A defeat is boxed, so that the common case moves no room for it.
    async fn attempt(
        &self,
        asking: Asking,
        now: Duration,
        own: &[Token],
    ) -> Result<Held, Box<Defeat>> {
        let token = match own.last() {
            Some(last) if mutant!(TokenReused) => *last,
            _ => Token::generate(&*self.runtime),
        };
        let nodes = &self.engine.nodes;
        let lock = Acquisition::new(nodes, &self.runtime, &self.plan, now, token);
        let lock = Arc::new(lock);
        if !mutant!(ShutdownForgetsAttempts) {
            lock.register(&self.engine.registry);
        }
        // A shutdown may have come in between, and does not know of it then.
        if self.engine.registry.is_shut() {
            lock.end();
        }
        let acquiring = Acquiring::new(&lock, asking);
        let mut fan_out = FanOut::new(acquiring, &self.runtime, now);
        fan_out.decide().await;
        let now = self.runtime.now();
        let mut valid_until = lock.started.saturating_add(lock.timing.validity);
        if mutant!(ElapsedNotSubtracted) {
            valid_until = now.saturating_add(lock.timing.validity);
        }
        let verdict = fan_out.operation.round.verdict(now, valid_until, own);
        // Nodes that answer at once may have decided before the last one was sent anything, and a
        // holder wants all of them. And a node that has refused by now needs no release.
        fan_out.take_ready().await;
        let hold = self.plan.hold_at_least;
        if verdict == Verdict::Won && lock.ledger().is_won(now, valid_until, hold) {
            fan_out.operation.is_decided = true;
            if let Some(renewal) = self.plan.renewal {
                renew::start(self.engine, &lock, renewal);
            }
            if mutant!(ShutdownForgetsAttempts) {
                lock.register(&self.engine.registry);
            }
            return Ok(Held::new(lock, Arc::clone(&self.plan.resource)));
        }
        fan_out.add(Acquiring::give_up);
        // The next attempt comes behind these releases, or it would meet its predecessor's keys.
        fan_out.take_ready().await;
        Err(Box::new(Defeat {
            round: fan_out.operation.round.clone(),
            token,
            verdict,
            took: now.saturating_sub(lock.started),
        }))
    }

    async fn pause_until(&self, at: Duration) {
        let pause = at.saturating_sub(self.runtime.now());
        if pause.is_zero() {
            yield_now().await;
        } else {
            self.runtime.sleep(pause).await;
        }
    }

    /// A random number in `0.0..1.0`.
    fn chance(&self) -> f64 {
        let random = self.runtime.random();
        let [a, b, c, d, ..] = random;
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }

    fn error(&self, defeat: &Defeat, attempts: u32) -> AcquireError {
        let waited = self.runtime.now().saturating_sub(self.started);
        let labels = self.engine.nodes.labels();
        let granted = |answer: &AcquireAnswer| *answer == AcquireAnswer::Granted;
        let nodes = defeat.round.ballots().reports(labels, granted);
        match &defeat.verdict {
            Verdict::TooLate | Verdict::Won => AcquireError::TooSlow(TooSlow {
                waited,
                attempts,
                took: defeat.took,
                validity: self.plan.timing.validity,
            }),
            Verdict::Contended { holder, .. } => AcquireError::Contended(Contended {
                waited,
                attempts,
                holder: holder.as_ref().and_then(|holder| holder.token.clone()),
                holder_ttl: defeat.round.holder_ttl(),
                nodes,
            }),
            Verdict::Vetoed => AcquireError::Contended(Contended {
                waited,
                attempts,
                nodes,
                ..Contended::default()
            }),
            Verdict::Unavailable { .. } => AcquireError::Unavailable(Unavailable {
                waited,
                attempts,
                quorum: self.engine.nodes.quorum().needed(),
                nodes,
            }),
        }
    }
}

/// Lets other tasks run: attempts that follow each other without a pause must not starve them.
async fn yield_now() {
    let mut is_first = true;
    poll_fn(|cx| match mem::take(&mut is_first) {
        true => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        false => Poll::Ready(()),
    })
    .await;
}

/// One attempt under way. Left undecided, by cancellation, it releases what it has set.
struct Acquiring {
    lock: Arc<Acquisition>,
    round: AcquireRound,
    tell: Tell,
    /// Known if something needs it.
    anchor: Option<usize>,
    is_decided: bool,
}

impl Acquiring {
    fn new(lock: &Arc<Acquisition>, asking: Asking) -> Self {
        let needs_anchor = asking.anchor_first || asking.tell == Tell::Anchor;
        let anchor = needs_anchor.then(|| anchor(lock));
        let first = anchor.filter(|_| asking.anchor_first);
        let mut round = AcquireRound::new(lock.quorum(), first, asking.cut_at);
        // A timer may have fired late, so that the caller's deadline has passed already.
        round.handle_time(lock.started);
        Self {
            lock: Arc::clone(lock),
            round,
            tell: asking.tell,
            anchor,
            is_decided: false,
        }
    }

    /// Returns whether the node is to tell who holds the lock, if somebody does.
    fn tells(&self, node: usize) -> bool {
        match self.tell {
            Tell::Nobody => false,
            Tell::Anchor => self.anchor == Some(node),
            Tell::All => true,
        }
    }

    /// Ends the attempt: every node where its key may be gets a release.
    fn give_up(&mut self, calls: &mut Calls) {
        self.is_decided = true;
        self.lock.end();
        if mutant!(NoCleanupAfterFailure) {
            return;
        }
        if mutant!(LateGrantsForgotten) {
            self.lock.ledger().forget_late_grants();
        }
        let touched = self.lock.ledger().touched();
        add_releases(&self.lock, touched, calls);
    }
}

impl Operation for Acquiring {
    type Verdict = ();

    fn step(&self) -> Step<()> {
        self.round.step()
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        // One command for all nodes, so that backends encode it only once.
        let lock = Arc::clone(&self.lock);
        let plain = LazyCell::new(|| command(&lock, false));
        let telling = LazyCell::new(|| command(&lock, true));
        for node in nodes.iter() {
            let within = lock.within(node);
            let probe = match lock.nodes.all[node].admit(now, within) {
                Admission::Go => None,
                Admission::Probe => Some(Probe::new(&lock.nodes, node)),
                Admission::Skip => {
                    let error = NodeError::not_sent("not asked: an earlier call has had no answer");
                    self.round.handle_vote(node, Err(error));
                    continue;
                }
            };
            let command = match self.tells(node) {
                true => Command::clone(&telling),
                false => Command::clone(&plain),
            };
            self.round.asked(node, now, within);
            calls.push(Call {
                probe,
                ..Call::of_lock(&lock, node, Purpose::Acquire, command)
            });
        }
    }

    fn take(&mut self, done: Done, calls: &mut Calls) {
        if done.purpose != Purpose::Acquire {
            return settle(done, calls);
        }
        let vote = done.acquire_answer();
        let now = || self.lock.runtime.now();
        let follow = self.lock.ledger().acquire_answered(done.node, &vote, now);
        carry_out(follow, &self.lock, done.node, calls);
        self.round.handle_vote(done.node, vote);
    }

    fn pass_time(&mut self, now: Duration, _calls: &mut Calls) {
        for node in self.round.handle_time(now).iter() {
            self.lock.nodes.overdue(node, self.lock.within(node));
        }
    }

    fn leave(&mut self, calls: &mut Calls) -> Rest {
        if !self.is_decided && !mutant!(NoCleanupAfterCancellation) {
            self.give_up(calls);
        }
        Box::new(settle)
    }
}

fn command(lock: &Acquisition, tells: bool) -> Command {
    let ttl = lock.timing.ttl;
    Command::from(lock.keys.acquire(lock.token, ttl, tells))
}

/// The node that is asked first when votes are split: the next one when it is suspect.
fn anchor(lock: &Acquisition) -> usize {
    let nodes = lock.quorum().nodes();
    let mut order = anchor_order(lock.keys.first(), nodes);
    let first = order.next().unwrap_or_default();
    let is_well = |node: &usize| !lock.nodes.all[*node].is_suspect();
    std::iter::once(first)
        .chain(order)
        .find(is_well)
        .unwrap_or(first)
}
