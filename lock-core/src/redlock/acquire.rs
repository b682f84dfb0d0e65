//! Acquiring: attempts until one is won or there is no point in another.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::calls::{Calls, Done, Purpose, Vote};
use super::collector;
use super::engine::Engine;
use super::held::Held;
use super::protocol::{
    AcquireAnswer, AcquireRound, AcquireStep, Admission, Asking, Next, NodeSet, Patience, Tell,
    Verdict, Wait, anchor_order,
};
use super::settings::Plan;
use crate::error::{AcquireError, Contended, TooSlow, Unavailable};
use crate::guard::LockGuard;
use crate::node::{Command, NodeError, Operation, Token};
use crate::request::LockRequest;
use crate::runtime::Runtime;

pub(crate) async fn try_acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<LockGuard>, AcquireError> {
    let plan = engine.settings.plan(request)?;
    let acquire = Acquire::new(engine, plan);
    match acquire.run(Patience::Try).await {
        Ok(guard) => Ok(Some(guard)),
        Err(AcquireError::Contended(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<LockGuard, AcquireError> {
    let plan = engine.settings.plan(request)?;
    let acquire = Acquire::new(engine, plan);
    let patience = engine.settings.patience(request, acquire.started);
    acquire.run(patience).await
}

/// How many tokens of its last attempts a call remembers, to know its own keys again.
const OWN_TOKENS: usize = 32;

/// One call, with all its attempts.
struct Acquire<'a> {
    engine: &'a Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    plan: Plan,
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
    fn new(engine: &'a Arc<Engine>, plan: Plan) -> Self {
        let runtime = engine.settings.runtime();
        collector::resume(engine, &runtime);
        Self {
            engine,
            started: runtime.now(),
            runtime,
            plan,
        }
    }

    async fn run(&self, patience: Patience) -> Result<LockGuard, AcquireError> {
        let mut wait = Wait::new(patience, self.started, self.plan.timing.node_timeout);
        let mut asking = wait.first();
        let mut last_whole = None;
        let mut own = Vec::new();
        let mut now = self.started;
        loop {
            let defeat = match self.attempt(asking, now, &own).await {
                Ok(held) => return Ok(LockGuard::new(held)),
                Err(defeat) => defeat,
            };
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

    /// One attempt, at `now`. A defeat is boxed, so that the common case moves no room for it.
    async fn attempt(
        &self,
        asking: Asking,
        now: Duration,
        own: &[Token],
    ) -> Result<Held, Box<Defeat>> {
        let mut trying = Trying::new(self, asking, now);
        trying.vote().await;
        let attempt = Arc::clone(trying.calls.attempt());
        let now = self.runtime.now();
        let valid_until = attempt.started.saturating_add(attempt.timing.validity);
        let verdict = trying.round.verdict(now, valid_until, own);
        // Nodes that answer at once may have decided before the last one was sent anything, and a
        // holder wants all of them. And who has refused by now needs no release.
        while let Some(done) = trying.calls.next_ready().await {
            trying.take(done);
        }
        if verdict == Verdict::Won {
            let hold = self.plan.hold_at_least;
            if !hold.is_zero() {
                attempt.hold_until(now.saturating_add(hold));
            }
            if attempt.granted() != attempt.touched() {
                attempt.doubt(now);
            }
            trying.is_decided = true;
            return Ok(Held::new(
                attempt,
                Arc::clone(&self.plan.resource),
                valid_until,
            ));
        }
        trying.give_up();
        // The next attempt comes behind these releases, or it would meet its predecessor's keys.
        trying.calls.send().await;
        Err(Box::new(Defeat {
            round: trying.round.clone(),
            token: attempt.token,
            verdict,
            took: now.saturating_sub(attempt.started),
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
        let labels = self.engine.labels();
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
                quorum: self.engine.settings.quorum.needed(),
                nodes,
            }),
        }
    }
}

/// An attempt under way. Dropping it undecided, by cancellation, releases what it has set.
struct Trying {
    calls: Calls,
    round: AcquireRound,
    tell: Tell,
    /// Known if somebody needs it.
    anchor: Option<usize>,
    /// The anchor is asked before the others, so that asking goes on while time passes.
    is_in_turn: bool,
    is_decided: bool,
}

impl Trying {
    fn new(acquire: &Acquire<'_>, asking: Asking, now: Duration) -> Self {
        let attempt = Attempt::new(acquire.engine, &acquire.runtime, &acquire.plan, now);
        let is_in_turn = asking.anchor_first;
        let needs_anchor = is_in_turn || asking.tell == Tell::Anchor;
        let anchor = needs_anchor.then(|| anchor(&attempt));
        let first = anchor.filter(|_| is_in_turn);
        Self {
            round: AcquireRound::new(attempt.quorum(), first, asking.cut_at),
            calls: Calls::new(Arc::new(attempt), now),
            tell: asking.tell,
            anchor,
            is_in_turn,
            is_decided: false,
        }
    }

    /// Asks, and takes votes until the outcome is certain.
    async fn vote(&mut self) {
        let attempt = Arc::clone(self.calls.attempt());
        let mut now = attempt.started;
        // A timer may have fired late, so that the caller's deadline has passed already.
        self.pass_time(now);
        loop {
            match self.round.step() {
                AcquireStep::Ask(nodes) => self.ask(nodes, now),
                AcquireStep::Wait(until) => match self.calls.next(until).await {
                    Some(done) => {
                        self.take(done);
                        if self.is_in_turn {
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

    fn take(&mut self, done: Done) {
        if let Vote::Acquire { vote, .. } = done.vote {
            self.calls.attempt().note_acquire(done.node, &vote);
            self.round.handle_vote(done.node, vote);
        }
    }

    /// Ends the attempt: every node where its key may be gets a release.
    fn give_up(&mut self) {
        self.is_decided = true;
        self.calls.attempt().end();
        self.calls.start_releases();
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        if !self.is_decided {
            self.give_up();
        }
    }
}

fn command(attempt: &Attempt, tells: bool) -> Command {
    let key = Arc::clone(&attempt.key);
    let (token, ttl) = (attempt.token, attempt.timing.ttl);
    Command::from(if tells {
        Operation::AcquireOrTell { key, token, ttl }
    } else {
        Operation::Acquire { key, token, ttl }
    })
}

/// The node that is asked first when votes are split: the next one when it is suspect.
fn anchor(attempt: &Attempt) -> usize {
    let nodes = attempt.quorum().nodes();
    let mut order = anchor_order(&attempt.key, nodes);
    let first = order.next().unwrap_or_default();
    let is_well = |node: &usize| !attempt.member(*node).is_suspect();
    std::iter::once(first)
        .chain(order)
        .find(is_well)
        .unwrap_or(first)
}

/// Lets other tasks run: attempts that follow each other without a pause must not starve them.
async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}
