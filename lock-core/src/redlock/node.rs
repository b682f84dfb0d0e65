//! One node of a lock, and what is known of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use super::protocol::{Admission, Debts, Health};
use crate::node::{Command, NodeError, NodeErrorKind, RedisNode, Reply};
use crate::runtime::BoxFuture;
use crate::trace;

/// After so many times of what it was allowed, a probe is no longer waited for: its caller may hold
/// it without polling it, and must not keep everybody else from the node.
const PROBE_LAPSES: u32 = 10;

/// A node that was given less time than this is not suspect when it did not answer: a lock with a
/// ttl of a few milliseconds must not close the node to all others.
const SUSPICIOUS: Duration = Duration::from_millis(10);

/// One node of a lock.
#[derive(Debug)]
pub(crate) struct LockNode {
    pub(crate) label: Arc<str>,
    node: Arc<dyn RedisNode>,
    health: AtomicU8,
    /// When the present probe is no longer waited for, in ns.
    probe_lapses_at: AtomicU64,
    debts: Mutex<Debts>,
    /// Whether a task is busy with the debts.
    pub(super) is_collecting: AtomicBool,
    /// That task ended with its runtime.
    pub(super) is_abandoned: AtomicBool,
}

impl LockNode {
    pub(crate) fn new(node: Arc<dyn RedisNode>) -> Self {
        Self {
            label: Arc::from(node.label()),
            node,
            health: AtomicU8::new(Health::default().0),
            probe_lapses_at: AtomicU64::new(0),
            debts: Mutex::default(),
            is_collecting: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Sends one command, by digest first, and with the source of its script if the node does not know
    /// that one: then nothing ran. Learns from what comes back how the node is. A client that
    /// panics takes neither the caller along nor the calls to other nodes that one task drives.
    ///
    /// Boxed is what is rare, so that a call stays small.
    pub(crate) async fn execute<G: Gate>(
        &self,
        command: &Command,
        within: Duration,
        gate: &G,
    ) -> Result<Reply, NodeError> {
        let result = self.send(command, within, gate).await;
        if command.is_digest() && result.as_ref().is_err_and(NodeError::is_no_script) {
            let command = command.with_source();
            return Box::pin(self.send(&command, within, gate)).await;
        }
        result
    }

    fn send<'c, G: Gate>(
        &'c self,
        command: &'c Command,
        within: Duration,
        gate: &'c G,
    ) -> Send<'c, G> {
        Send {
            node: self,
            command,
            within,
            gate,
            call: None,
        }
    }

    fn learn(&self, command: &Command, within: Duration, result: &Result<Reply, NodeError>) {
        match result.as_ref().map_err(NodeError::kind) {
            Ok(_) | Err(NodeErrorKind::Server | NodeErrorKind::UnexpectedReply) => self.answered(),
            Err(NodeErrorKind::NoAnswer) => self.overdue(within),
            Err(_) => {}
        }
        let operation = command.operation().name();
        trace::answer(&self.label, operation, result.as_ref().err());
    }

    /// Whether an acquire may ask the node at `now`, which then has `within` to answer. A probe
    /// ends with [`probe_ended`](Self::probe_ended), or lapses.
    pub(crate) fn admit(&self, now: Duration, within: Duration) -> Admission {
        if !self.health().is_suspect() || mutant!(SuspectsNotSpared) {
            return Admission::Go;
        }
        if mutant!(SuspectsNeverProbed) {
            return Admission::Skip;
        }
        let mut admission = Admission::Go;
        self.update(|health| {
            let (decision, next) = health.admit();
            admission = decision;
            next
        });
        let lapses_at = nanos(now.saturating_add(within.saturating_mul(PROBE_LAPSES)));
        match admission {
            Admission::Go => Admission::Go,
            Admission::Probe => {
                self.probe_lapses_at.store(lapses_at, Ordering::Relaxed);
                Admission::Probe
            }
            Admission::Skip => {
                let takes_over = |due| (due <= nanos(now)).then_some(lapses_at);
                let relaxed = Ordering::Relaxed;
                match self
                    .probe_lapses_at
                    .fetch_update(relaxed, relaxed, takes_over)
                {
                    Ok(_) => Admission::Probe,
                    Err(_) => Admission::Skip,
                }
            }
        }
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.health().is_suspect()
    }

    /// A call was not answered within its time.
    pub(crate) fn overdue(&self, within: Duration) {
        if within >= SUSPICIOUS && !self.update(Health::overdue).is_suspect() {
            trace::suspect(&self.label, within);
        }
    }

    pub(super) fn probe_ended(&self) {
        self.update(Health::probe_ended);
    }

    /// How long the node may take: while it has never answered, its client has to connect first.
    pub(crate) fn within(&self, node_timeout: Duration, connect_timeout: Duration) -> Duration {
        if self.has_answered() {
            node_timeout
        } else {
            node_timeout.max(connect_timeout)
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.health().has_answered()
    }

    pub(super) fn debts(&self) -> MutexGuard<'_, Debts> {
        // Nothing that holds the lock can panic half-way through a change.
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self) {
        if !self.health().is_fine() && self.update(Health::answered).is_suspect() {
            trace::answers_again(&self.label);
        }
    }

    fn health(&self) -> Health {
        Health(self.health.load(Ordering::Relaxed))
    }

    /// Changes what is known, and says what was known before.
    fn update(&self, mut change: impl FnMut(Health) -> Health) -> Health {
        let mut seen = self.health.load(Ordering::Relaxed);
        loop {
            let next = change(Health(seen)).0;
            let swapped =
                self.health
                    .compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed);
            match swapped {
                Ok(before) => return Health(before),
                Err(other) => seen = other,
            }
        }
    }
}

/// Decides, at the last moment, whether a command is sent.
pub(crate) trait Gate: Sync {
    /// Returns whether the command may be sent, right before it is.
    fn opens(&self) -> bool;

    /// The command is on its way: a call counts from its first poll (rule N12), which was just now.
    fn is_passed(&self);
}

/// One command on its way to a node.
#[must_use]
struct Send<'c, G> {
    node: &'c LockNode,
    command: &'c Command,
    within: Duration,
    gate: &'c G,
    /// `None` before the first poll.
    call: Option<BoxFuture<'c, Result<Reply, NodeError>>>,
}

impl<G: Gate> Future for Send<'_, G> {
    type Output = Result<Reply, NodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let is_first = this.call.is_none();
        if is_first && !this.gate.opens() {
            return Poll::Ready(Err(NodeError::not_sent("not asked: the attempt is over")));
        }
        let poll = match contained(|| this.poll_call(cx)) {
            Ok(poll) => poll,
            Err(panicked) => {
                // What the client has left half done is its own, and may panic once more.
                let call = this.call.take();
                contained(|| drop(call)).ok();
                Poll::Ready(Err(panicked))
            }
        };
        if is_first {
            this.gate.is_passed();
        }
        if let Poll::Ready(result) = &poll {
            this.node.learn(this.command, this.within, result);
        }
        poll
    }
}

impl<'c, G> Send<'c, G> {
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, NodeError>> {
        let (node, command, within) = (self.node, self.command, self.within);
        let call = || node.node.execute(command, within);
        let poll = self.call.get_or_insert_with(call).as_mut().poll(cx);
        if poll.is_ready() {
            self.call = None;
        }
        poll
    }
}

/// Runs the client's code. A panic of it is the error of a node that failed.
fn contained<T>(client: impl FnOnce() -> T) -> Result<T, NodeError> {
    catch_unwind(AssertUnwindSafe(client)).map_err(|_| NodeError::connection("the client panicked"))
}

/// Moments fit 64 bits of nanoseconds for 584 years.
fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}
