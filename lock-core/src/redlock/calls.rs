//! The calls of one attempt that are under way. None is ever dropped half-way: what the caller no
//! longer waits for is driven to its end in the background.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::attempt::Attempt;
use super::pending::Pending;
use super::protocol::{AcquireAnswer, KeyAnswer, NodeSet};
use crate::node::{Command, NodeError, NodeErrorKind, Reply};
use crate::runtime::BoxFuture;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Acquire,
    /// Sets the key again at a node that forgot it.
    Heal,
    Extend,
    Release,
}

/// A call that came to its end.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) node: usize,
    pub(crate) vote: Vote,
}

/// What a call brought.
#[derive(Debug)]
pub(crate) enum Vote {
    Acquire {
        vote: Result<AcquireAnswer, NodeError>,
        /// The attempt was over when it had just been sent, so it may have taken effect behind the
        /// release.
        may_be_behind: bool,
    },
    Extend(Result<KeyAnswer, NodeError>),
    Release(Result<KeyAnswer, NodeError>),
}

/// The calls of one attempt that are under way.
#[derive(Debug)]
pub(crate) struct Calls {
    attempt: Arc<Attempt>,
    pending: Pending<Done>,
    timer: Option<Timer>,
    /// What the clock showed when the calls were made; not known any more once one has ended.
    /// It spares the first timer another look.
    now: Option<Duration>,
}

struct Timer {
    until: Duration,
    sleep: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timer({:?})", self.until)
    }
}

impl Calls {
    pub(crate) fn new(attempt: Arc<Attempt>, now: Duration) -> Self {
        Self {
            attempt,
            pending: Pending::default(),
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
        let call = call(attempt, node, purpose, command, within);
        self.pending.push(Box::pin(call));
    }

    /// Adds the call that finds out how a suspect node is.
    pub(crate) fn start_probe(&mut self, node: usize, command: Command, within: Duration) {
        let attempt = Arc::clone(&self.attempt);
        let probe = Probe {
            attempt: Arc::clone(&attempt),
            node,
        };
        let call = call(attempt, node, Purpose::Acquire, command, within);
        self.pending.push(Box::pin(async move {
            let done = call.await;
            drop(probe);
            done
        }));
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
    /// Cancel safe.
    pub(crate) async fn next(&mut self, until: Duration) -> Option<Done> {
        poll_fn(|cx| self.poll_next(cx, until)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, until: Duration) -> Poll<Option<Done>> {
        if let Poll::Ready(Some(done)) = self.pending.poll_next(cx) {
            self.now = None;
            return Poll::Ready(Some(done));
        }
        if self.timer.as_ref().is_none_or(|timer| timer.until != until) {
            let now = self.now.take();
            let left = until.saturating_sub(now.unwrap_or_else(|| self.attempt.runtime.now()));
            let sleep = self.attempt.runtime.sleep(left);
            self.timer = Some(Timer { until, sleep });
        }
        let timer = self.timer.as_mut().map(|timer| Pin::new(&mut timer.sleep));
        match timer.map(|sleep| sleep.poll(cx)) {
            Some(Poll::Ready(())) => {
                self.timer = None;
                Poll::Ready(None)
            }
            _ => Poll::Pending,
        }
    }

    /// A call that has ended already. It does not wait for any, but sends what was added and not
    /// polled yet.
    pub(crate) async fn next_ready(&mut self) -> Option<Done> {
        poll_fn(|cx| match self.pending.poll_next(cx) {
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
            let pending = mem::take(&mut self.pending);
            let rest = settle(Arc::clone(&self.attempt), pending);
            self.attempt.runtime.spawn(Box::pin(rest));
        }
    }
}

/// Frees a suspect node for the next probe when this one has ended, in whatever way.
struct Probe {
    attempt: Arc<Attempt>,
    node: usize,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.attempt.member(self.node).probe_ended();
    }
}

async fn call(
    attempt: Arc<Attempt>,
    node: usize,
    purpose: Purpose,
    command: Command,
    within: Duration,
) -> Done {
    let mut may_be_behind = false;
    let mut result = send(
        &attempt,
        node,
        purpose,
        &command,
        within,
        &mut may_be_behind,
    )
    .await;
    if command.is_digest() && result.as_ref().is_err_and(NodeError::is_no_script) {
        // The server does not know the script, so nothing ran: sends its source. Boxed, as all
        // rare things here, so that a call stays small and cheap to move.
        let command = command.with_source();
        let sent = send(
            &attempt,
            node,
            purpose,
            &command,
            within,
            &mut may_be_behind,
        );
        result = Box::pin(sent).await;
    }
    let operation = command.operation();
    let key_answer = |reply| KeyAnswer::read(operation, &reply);
    let vote = match purpose {
        Purpose::Acquire | Purpose::Heal => Vote::Acquire {
            vote: result.and_then(|reply| AcquireAnswer::read(operation, reply)),
            may_be_behind,
        },
        Purpose::Extend => Vote::Extend(result.and_then(key_answer)),
        Purpose::Release => Vote::Release(result.and_then(key_answer)),
    };
    Done { node, vote }
}

/// Sends one command. What sets or extends a key is not sent when its attempt is over, as it would
/// run behind its own release; a release always is.
async fn send(
    attempt: &Attempt,
    node: usize,
    purpose: Purpose,
    command: &Command,
    within: Duration,
    may_be_behind: &mut bool,
) -> Result<Reply, NodeError> {
    if purpose != Purpose::Release && attempt.is_over() {
        return Err(NodeError::not_sent("not asked: the attempt is over"));
    }
    let mut execute = pin!(attempt.member(node).execute(command, within));
    let mut is_first = true;
    poll_fn(|cx| {
        let poll = execute.as_mut().poll(cx);
        // A call counts from its first poll: a release that follows if the attempt is not over yet
        // goes behind it.
        if mem::take(&mut is_first) {
            *may_be_behind = attempt.is_over();
        }
        poll
    })
    .await
}

/// Drives calls to their end and does what their answers ask for.
async fn settle(attempt: Arc<Attempt>, mut pending: Pending<Done>) {
    while let Some(done) = pending.next().await {
        pending.extend(settle_one(&attempt, done));
    }
}

/// What a call that nobody waits for brought: a grant counts if the lock is held; if the attempt is
/// over, it is released unless a release follows it already; a release without a definite answer
/// is sent again later.
fn settle_one(attempt: &Arc<Attempt>, done: Done) -> Option<BoxFuture<'static, Done>> {
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
                let release = call(Arc::clone(attempt), node, Purpose::Release, command, within);
                Box::pin(release) as BoxFuture<'static, Done>
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
