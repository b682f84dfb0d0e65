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
use super::confirm::confirm;
use super::engine::Engine;
use super::fanout::{FanOut, Operation, Rest};
use super::held::Held;
use super::protocol::{
    AcquireAnswer, AcquireRound, Admission, AskPlan, Next, NodeSet, ReportHolder, Retries, Step,
    Verdict, WaitPolicy, anchor_order,
};
use super::release::{add_releases, carry_out, settle};
use super::settings::Plan;
use super::{fill, renew, several};
use crate::display::Name;
use crate::error::{AcquireError, Contended, InvalidInput, TooSlow, Unavailable};
use crate::held::HeldLock;
use crate::node::{Command, Keys, NodeError, Operation as NodeOperation, Token};
use crate::request::LockRequest;
use crate::runtime::Runtime;

/// All of the request in one round, and again if it `waits`. The lock needs a guard at once, which
/// releases it.
pub(crate) async fn one(
    engine: &Arc<Engine>,
    request: &LockRequest,
    waits: bool,
) -> Result<Held, AcquireError> {
    let plan = engine.settings().plan(request)?;
    let wait_policy = |now| match waits {
        true => engine.settings().wait_policy(request, now),
        false => WaitPolicy::Try,
    };
    Acquire::new(engine, plan, wait_policy).attempts().await
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
    wait_policy: WaitPolicy,
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
    /// `wait_policy` computes the deadline from the start time.
    fn new(
        engine: &'a Arc<Engine>,
        plan: Plan,
        wait_policy: impl FnOnce(Duration) -> WaitPolicy,
    ) -> Self {
        let runtime = engine.settings().runtime();
        renew::resume(engine, &runtime);
        let started = runtime.now();
        Self {
            engine,
            started,
            runtime,
            plan: Box::new(plan),
            wait_policy: wait_policy(started),
        }
    }

    /// All attempts, in a span if somebody reads it: only then is there room for one.
    async fn attempts(&self) -> Result<Held, AcquireError> {
        if !tracing::enabled!(target: "lock_core", Level::DEBUG) {
            return self.run().await;
        }
        let resource = Name(&self.plan.resource);
        let span = tracing::debug_span!(target: "lock_core", "acquire", %resource);
        Box::pin(self.run().instrument(span)).await
    }

    async fn run(&self) -> Result<Held, AcquireError> {
        let mut retries = Retries::new(
            self.wait_policy,
            self.started,
            self.plan.timing.node_timeout,
        );
        let mut ask_plan = retries.first();
        let mut last_whole = None;
        let mut own = Vec::new();
        let mut now = self.started;
        let error = loop {
            if self.is_shut() {
                break AcquireError::ShutDown;
            }
            let (defeat, cleanup) = match self.attempt(ask_plan, now, &own).await {
                Ok(held) => {
                    let waited = held.lock().started.saturating_sub(self.started);
                    held.lock().events().acquired(
                        held.lock().name(),
                        retries.attempts(),
                        waited,
                        held.votes(),
                        held.fencing_token(),
                    );
                    return Ok(held);
                }
                Err(defeat) => defeat,
            };
            if self.is_shut() {
                self.wait_for(cleanup).await;
                break AcquireError::ShutDown;
            }
            own.push(defeat.token);
            if own.len() > OWN_TOKENS {
                own.remove(0);
            }
            let next = retries.after(&defeat.verdict, self.runtime.now(), self.chance());
            let defeat = match last_whole {
                Some(last_whole) if !defeat.round.is_whole() => last_whole,
                _ => defeat,
            };
            match next {
                Next::Attempt { at, ask } => {
                    // Goes on in the background.
                    drop(cleanup);
                    self.pause_until(at).await;
                    now = self.runtime.now();
                    ask_plan = ask;
                    last_whole = Some(defeat);
                }
                Next::GiveUp => {
                    self.wait_for(cleanup).await;
                    break self.error(&defeat, retries.attempts());
                }
            }
        };
        if !several::goes_one_by_one(&error) {
            let events = &self.engine.settings().events;
            events.not_acquired(&self.plan.resource, &error);
        }
        Err(error)
    }

    fn is_shut(&self) -> bool {
        self.engine.registry.is_shut()
    }

    /// The token of an attempt behind those with these.
    fn token(&self, own: &[Token]) -> Token {
        match own.last() {
            Some(last) if mutant!(TokenReused) => *last,
            _ => self.engine.settings().token(&*self.runtime),
        }
    }

    /// One attempt, at `now`. After a defeat its releases are on their way. Both are boxed, so that the
    /// common case moves no room for them.
    async fn attempt(
        &self,
        ask_plan: AskPlan,
        now: Duration,
        own: &[Token],
    ) -> Result<Held, (Box<Defeat>, Box<FanOut<Acquiring>>)> {
        let nodes = &self.engine.nodes;
        let began = self.engine.settings().beginning(&*self.runtime, now);
        let token = self.token(own);
        let lock = Acquisition::new(nodes, &self.runtime, &self.plan, began, token);
        let lock = Arc::new(lock);
        if !mutant!(ShutdownForgetsAttempts) {
            lock.register(&self.engine.registry);
        }
        // A shutdown may have come in between, and does not know of it then.
        if self.engine.registry.is_shut() {
            lock.end();
        }
        let acquiring = Acquiring::new(&lock, ask_plan);
        let mut fan_out = FanOut::new(acquiring, &self.runtime, began.now);
        fan_out.decide().await;
        let now = lock.look();
        let mut valid_until = lock.started.saturating_add(lock.timing.validity);
        if lock.ledger().has_expired() {
            valid_until = now;
        }
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
            fan_out.add(|acquiring, calls| acquiring.inspect_refusals(calls));
            if let Some(renewal) = self.plan.renewal {
                renew::start(self.engine, &lock, renewal);
            }
            fill::start(&lock);
            if mutant!(ShutdownForgetsAttempts) {
                lock.register(&self.engine.registry);
            }
            return Ok(Held::new(lock, Arc::clone(&self.plan.resource), now));
        }
        fan_out.add(Acquiring::give_up);
        // The next attempt comes behind these releases, or it would meet its predecessor's keys.
        fan_out.take_ready().await;
        let defeat = Defeat {
            round: fan_out.operation.round.clone(),
            token: lock.token,
            verdict,
            took: now.saturating_sub(lock.started),
        };
        Err((Box::new(defeat), Box::new(fan_out)))
    }

    /// The process may end with the error: so the nodes that have granted are given the time of one
    /// command to answer the release.
    async fn wait_for(&self, mut cleanup: Box<FanOut<Acquiring>>) {
        let until = self
            .runtime
            .now()
            .saturating_add(self.plan.timing.node_timeout);
        let is_granted = |acquiring: &Acquiring| !acquiring.lock.ledger().granted().is_empty();
        cleanup.finish_while(is_granted, until).await;
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
        let nodes = &self.engine.nodes;
        let nodes = nodes.reports(defeat.round.ballots(), AcquireAnswer::is_granted);
        let longest = defeat.round.longest_holder();
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
                holder_ttl: longest.and_then(|holder| holder.ttl),
                owner: longest.and_then(|holder| holder.owner().map(str::to_owned)),
                nodes,
            }),
            Verdict::Vetoed => AcquireError::Contended(Contended {
                waited,
                attempts,
                nodes,
                ..Contended::default()
            }),
            Verdict::Unavailable { .. }
                if self.engine.settings().guard.is_some()
                    && nodes.errors().any(NodeError::is_cross_slot) =>
            {
                InvalidInput::GuardApart.into()
            }
            Verdict::Unavailable { .. }
                if self.plan.fence.is_some() && nodes.errors().any(NodeError::is_cross_slot) =>
            {
                let keys = 2 * self.plan.keys.as_slice().len();
                InvalidInput::FencingApart { keys }.into()
            }
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
    report_holder: ReportHolder,
    /// Known if something needs it.
    anchor: Option<usize>,
    is_decided: bool,
}

impl Acquiring {
    fn new(lock: &Arc<Acquisition>, ask: AskPlan) -> Self {
        let needs_anchor = ask.anchor_first || ask.report_holder == ReportHolder::AtAnchor;
        let anchor = needs_anchor.then(|| anchor(lock));
        let first = anchor.filter(|_| ask.anchor_first);
        let mut round = AcquireRound::new(lock.quorum(), first, ask.cut_at);
        if lock.fence.is_some() {
            round = round.with_fencing();
        }
        // A timer may have fired late, so that the caller's deadline has passed already.
        round.handle_time(lock.started);
        Self {
            lock: Arc::clone(lock),
            round,
            report_holder: ask.report_holder,
            anchor,
            is_decided: false,
        }
    }

    /// Returns whether the node is to report the holder, if there is one.
    fn reports_holder(&self, node: usize) -> bool {
        match self.report_holder {
            ReportHolder::Nowhere => false,
            ReportHolder::AtAnchor => self.anchor == Some(node),
            ReportHolder::Everywhere => true,
        }
    }

    /// The lock is won: asks the nodes that have refused it whose key they have. If it is ours, though
    /// nothing but a plain `SET` was sent, such a node is the same server as one that has granted it.
    fn inspect_refusals(&self, calls: &mut Calls) {
        let lock = &self.lock;
        let (Keys::One(key), None) = (&lock.keys, &lock.fence) else {
            return;
        };
        for node in self.round.refused().iter() {
            let key = Arc::clone(key);
            let command = Command::from(NodeOperation::Inspect { key });
            calls.push(Call::of_lock(lock, node, Purpose::Inspect, command));
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
                    self.round.not_asked(node, error);
                    self.lock.ledger().not_asked(node);
                    continue;
                }
            };
            let command = match self.reports_holder(node) {
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
        match done.purpose {
            Purpose::Acquire => {}
            Purpose::Confirm => {
                let answer = done.confirmation();
                return self.round.handle_confirmation(done.node, answer);
            }
            _ => return settle(done, calls),
        }
        let (lock, vote) = (&self.lock, done.acquire_answer());
        let now = || lock.runtime.now();
        let follow = lock.ledger().acquire_answered(done.node, &vote, now);
        carry_out(follow, lock, done.node, calls);
        let asks = |node| (now(), lock.within(node));
        let to_confirm = self.round.handle_vote(done.node, vote, asks);
        if let Some(token) = self.round.fencing_token() {
            lock.fencing_token.get_or_init(|| token);
        }
        for (node, granted) in to_confirm {
            confirm(lock, node, granted, calls);
        }
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
        Box::new(|done, calls| {
            let lock = done.lock.clone();
            settle(done, calls);
            // A node that was slow to answer may turn out not to have the key.
            lock.iter().for_each(fill::start);
        })
    }
}

fn command(lock: &Acquisition, reports_holder: bool) -> Command {
    let ttl = lock.timing.ttl;
    let operation = match &lock.fence {
        Some(fence) => lock.keys.acquire_fenced(lock.token, ttl, fence.clone()),
        None => lock.keys.acquire(lock.token, ttl, reports_holder),
    };
    Command::from(operation.guarded_by(lock.nodes.settings.guard.as_ref()))
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
