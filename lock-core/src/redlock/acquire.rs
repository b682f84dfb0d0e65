//! Acquiring: attempts until one is won or there is no point in another.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Level};

use super::attempt::Attempt;
use super::engine::Engine;
use super::held::Held;
use super::protocol::{AcquireAnswer, AcquireRound, Asking, Next, Patience, Verdict, Wait};
use super::settings::Plan;
use super::trying::Trying;
use super::{collector, in_order, renewer};
use crate::error::{AcquireError, Contended, NodeVote, TooSlow, Unavailable};
use crate::guard::LockGuard;
use crate::held::HeldLock;
use crate::node::{NodeError, Token};
use crate::request::LockRequest;
use crate::runtime::Runtime;
use crate::trace;

pub(crate) async fn try_acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<LockGuard>, AcquireError> {
    if !must_go_one_by_one(engine, request) {
        match try_one(engine, request).await {
            Err(error) if has_cross_slot(&error) => engine.goes_one_by_one(),
            result => return Ok(result?.map(LockGuard::new)),
        }
    }
    Box::pin(in_order::try_acquire(engine, request)).await
}

pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<LockGuard, AcquireError> {
    if !must_go_one_by_one(engine, request) {
        match one(engine, request).await {
            Err(error) if has_cross_slot(&error) => engine.goes_one_by_one(),
            result => return result.map(LockGuard::new),
        }
    }
    // Boxed, as all rare things here: the common future stays small.
    Box::pin(in_order::acquire(engine, request)).await
}

/// Whether nodes are known to take no command for several keys, and there are several.
fn must_go_one_by_one(engine: &Engine, request: &LockRequest) -> bool {
    request.several().is_some() && engine.wants_one_by_one()
}

/// Whether a node of a cluster has refused to take several keys.
fn has_cross_slot(error: &AcquireError) -> bool {
    let AcquireError::Unavailable(unavailable) = error else {
        return false;
    };
    let reports = unavailable.nodes.as_slice().iter();
    let mut errors = reports.filter_map(|report| match &report.vote {
        NodeVote::Failed(error) => Some(error),
        _ => None,
    });
    errors.any(NodeError::is_cross_slot)
}

/// All of the request in one round. What is held needs a guard at once, or nobody releases it.
pub(super) async fn try_one(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<Held>, AcquireError> {
    let plan = engine.settings.plan(request)?;
    let acquire = Acquire::new(engine, plan, |_| Patience::Try);
    match acquire.attempts().await {
        Ok(held) => Ok(Some(held)),
        Err(AcquireError::Contended(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same, and waits.
pub(super) async fn one(engine: &Arc<Engine>, request: &LockRequest) -> Result<Held, AcquireError> {
    let plan = engine.settings.plan(request)?;
    let patience = |now| engine.settings.patience(request, now);
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
        let runtime = engine.settings.runtime();
        collector::resume(engine, &runtime);
        renewer::resume(engine, &runtime);
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
                    let waited = held.started().saturating_sub(self.started);
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
        if self.engine.holders.is_shut() {
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
        let mut attempt = Attempt::new(self.engine, &self.runtime, &self.plan, now);
        if mutant!(TokenReused) {
            attempt.token = own.last().copied().unwrap_or(attempt.token);
        }
        let mut trying = Trying::new(attempt, asking);
        let attempt = Arc::clone(trying.calls.attempt());
        if !mutant!(ShutdownForgetsAttempts) {
            self.engine.holders.add(&attempt);
        }
        // A shutdown may have come in between, and does not know of it then.
        if self.engine.holders.is_shut() {
            attempt.end();
        }
        trying.vote().await;
        let now = self.runtime.now();
        let mut valid_until = attempt.started.saturating_add(attempt.timing.validity);
        if mutant!(ElapsedNotSubtracted) {
            valid_until = now.saturating_add(attempt.timing.validity);
        }
        let verdict = trying.round.verdict(now, valid_until, own);
        // Nodes that answer at once may have decided before the last one was sent anything, and a
        // holder wants all of them. And who has refused by now needs no release.
        while let Some(done) = trying.calls.next_ready().await {
            trying.take(done);
        }
        // A shutdown may have released it meanwhile.
        if verdict == Verdict::Won && !attempt.is_over() {
            let hold = self.plan.hold_at_least;
            if !hold.is_zero() {
                attempt.hold_until(now.saturating_add(hold));
            }
            if attempt.granted() != attempt.touched() {
                attempt.doubt(now);
            }
            trying.is_decided = true;
            attempt.extend_validity(valid_until);
            if let Some(renewal) = self.plan.renewal {
                renewer::start(&attempt, renewal);
            }
            if mutant!(ShutdownForgetsAttempts) {
                self.engine.holders.add(&attempt);
            }
            return Ok(Held::new(attempt, Arc::clone(&self.plan.resource)));
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
