//! The calls of one attempt that are under way. None is ever dropped half-way: what the caller no
//! longer waits for is driven to its end in the background.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::attempt::Attempt;
use super::call::{Call, Done, Purpose, Vote};
use super::pending::Pending;
use super::protocol::{AcquireAnswer, NodeSet};
use crate::node::{Command, NodeErrorKind};
use crate::runtime::BoxFuture;

/// For so long calls that ask to be polled may wait for others, but for no more than a share of the
/// node timeout. What a call brings may be no answer, but its turn to send, or a node's wish for a
/// script's source; or it holds what others need until it is polled.
const PATIENCE: Duration = Duration::from_millis(25);
const PATIENCE_SHARE: u32 = 4;

/// The calls of one attempt that are under way.
#[derive(Debug)]
pub(crate) struct Calls {
    attempt: Arc<Attempt>,
    pending: Pending<Call>,
    /// Until when calls may wait for each other, as long as they do.
    patient_until: Option<Duration>,
    timer: Option<Timer>,
    /// What the clock showed when the calls were made; not known any more once one has ended.
    /// It spares the first timer another look.
    now: Option<Duration>,
}

struct Timer {
    due: Duration,
    sleep: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timer({:?})", self.due)
    }
}

impl Calls {
    /// None yet, of a round that begins at `now` and in which a node may take `node_timeout`.
    pub(crate) fn new(attempt: Arc<Attempt>, now: Duration, node_timeout: Duration) -> Self {
        let patience = PATIENCE.min(node_timeout / PATIENCE_SHARE);
        Self {
            pending: Pending::default(),
            patient_until: Some(now.saturating_add(patience)),
            attempt,
            timer: None,
            now: Some(now),
        }
    }

    pub(crate) fn attempt(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    /// Adds a call. It is sent at the next poll, in the order in which calls were added.
    pub(crate) fn start(
        &mut self,
        node: usize,
        purpose: Purpose,
        command: Command,
        within: Duration,
    ) {
        let attempt = Arc::clone(&self.attempt);
        let call = Call::new(attempt, node, purpose, command, within);
        self.pending.push(call);
    }

    /// Adds the call that finds out how a suspect node is.
    pub(crate) fn start_probe(&mut self, node: usize, command: Command, within: Duration) {
        let attempt = Arc::clone(&self.attempt);
        let probe = Call::probe(attempt, node, command, within);
        self.pending.push(probe);
        // As long as it is not heard, nobody else asks the node.
        self.pending.be_eager();
    }

    /// Adds a release of the attempt's key at every node where it may be, and says which.
    pub(crate) fn start_releases(&mut self) -> NodeSet {
        let nodes = self.attempt.touched();
        let command = self.attempt.release_command();
        for node in nodes.iter() {
            let within = self.attempt.within(node);
            self.start(node, Purpose::Release, command.clone(), within);
        }
        nodes
    }

    /// The next call that ends, or `None` when the runtime's clock reaches `until` before.
    ///
    /// The caller can do something with `enough` of them, and nothing with fewer. So he is not woken
    /// before that many ask for it; but if it takes long, by each.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self, until: Duration, enough: usize) -> Option<Done> {
        poll_fn(|cx| self.poll_next(cx, until, enough)).await
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        until: Duration,
        enough: usize,
    ) -> Poll<Option<Done>> {
        loop {
            if let Poll::Ready(Some(done)) = self.pending.poll_next(cx, enough) {
                self.now = None;
                return Poll::Ready(Some(done));
            }
            let due = ready!(self.poll_timer(cx, until));
            if due >= until {
                return Poll::Ready(None);
            }
            // They have been patient for long enough.
            self.patient_until = None;
            self.pending.be_eager();
        }
    }

    /// Ready when `until` or something before it is due, and says what.
    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Duration) -> Poll<Duration> {
        let due = self.patient_until.unwrap_or(until).min(until);
        let timer = match &mut self.timer {
            Some(timer) if timer.due <= due => timer,
            timer => {
                let now = self.now.take();
                let left = due.saturating_sub(now.unwrap_or_else(|| self.attempt.runtime.now()));
                let sleep = self.attempt.runtime.sleep(left);
                timer.insert(Timer { due, sleep })
            }
        };
        ready!(Pin::new(&mut timer.sleep).poll(cx));
        let due = timer.due;
        self.timer = None;
        Poll::Ready(due)
    }

    /// A call that has ended already. It does not wait for any, but sends what was added and not
    /// polled yet.
    pub(crate) async fn next_ready(&mut self) -> Option<Done> {
        poll_fn(|cx| match self.pending.poll_next(cx, 1) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// The next call that ends, however long it takes; `None` when none is left.
    ///
    /// Cancel safe.
    pub(crate) async fn next_ended(&mut self) -> Option<Done> {
        self.pending.next().await
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Sends what was added and not polled yet, without waiting for any answer: a call counts from
    /// its first poll, and what the caller does next must come behind it.
    pub(crate) async fn send(&mut self) {
        while let Some(done) = self.next_ready().await {
            self.settle(done);
        }
    }

    /// Drives all that is under way to its end, and does what the answers ask for.
    pub(crate) async fn finish(&mut self) {
        while let Some(done) = self.next_ended().await {
            self.settle(done);
        }
    }

    /// Does what the answer to a call asks for that nobody waits for.
    pub(crate) fn settle(&mut self, done: Done) {
        self.pending.extend(settle_one(&self.attempt, done));
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            let pending = self.pending.take();
            let rest = settle(Arc::clone(&self.attempt), pending);
            self.attempt.runtime.spawn(Box::pin(rest));
        }
    }
}

/// Drives calls to their end and does what their answers ask for.
async fn settle(attempt: Arc<Attempt>, mut pending: Pending<Call>) {
    while let Some(done) = pending.next().await {
        pending.extend(settle_one(&attempt, done));
    }
}

/// What a call that nobody waits for brought: a grant counts if the lock is held; if the attempt is
/// over, it is released unless a release follows it already; a release without a definite answer
/// is sent again later.
fn settle_one(attempt: &Arc<Attempt>, done: Done) -> Option<Call> {
    let node = done.node;
    match done.vote {
        Vote::Acquire {
            vote,
            may_be_behind,
        } => {
            attempt.note_acquire(node, &vote);
            let may_be_set = match &vote {
                Ok(answer) => *answer == AcquireAnswer::Granted,
                Err(error) => error.kind() != NodeErrorKind::NotSent && !error.is_cross_slot(),
            };
            // A release that has its answer already went before, against the rules.
            let may_be_left = may_be_behind || !attempt.touched().contains(node);
            (attempt.is_over() && may_be_set && may_be_left).then(|| {
                let command = attempt.release_command();
                let within = attempt.within(node);
                Call::new(Arc::clone(attempt), node, Purpose::Release, command, within)
            })
        }
        Vote::Extend(answer) => {
            if let Ok(answer) = answer {
                attempt.note_extend(node, answer, attempt.runtime.now());
            }
            None
        }
        Vote::Release(answer) => {
            attempt.note_release(node, &answer);
            None
        }
    }
}
