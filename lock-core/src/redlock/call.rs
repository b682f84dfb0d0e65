//! One call: a command for one node, from its first poll to what the answer means.

use std::cell::RefCell;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;
use std::thread::LocalKey;
use std::time::Duration;

use futures::FutureExt;

use super::attempt::Attempt;
use super::pending::{Idle, Recycled};
use super::place::Work;
use super::protocol::{AcquireAnswer, KeyAnswer};
use crate::node::{Command, NodeError, Operation, Reply};

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

/// A call to be made, as long as it takes.
pub(crate) struct Call {
    attempt: Arc<Attempt>,
    node: usize,
    purpose: Purpose,
    command: Command,
    within: Duration,
    probe: Option<Probe>,
}

impl Call {
    pub(super) fn new(
        attempt: Arc<Attempt>,
        node: usize,
        purpose: Purpose,
        command: Command,
        within: Duration,
    ) -> Self {
        Self {
            attempt,
            node,
            purpose,
            command,
            within,
            probe: None,
        }
    }

    /// The call that finds out how a suspect node is.
    pub(super) fn probe(
        attempt: Arc<Attempt>,
        node: usize,
        command: Command,
        within: Duration,
    ) -> Self {
        // Made here, since what is never polled never begins.
        let probe = Probe {
            attempt: Arc::clone(&attempt),
            node,
        };
        Self {
            probe: Some(probe),
            ..Self::new(attempt, node, Purpose::Acquire, command, within)
        }
    }

    /// Sends one command. What sets or extends a key is not sent when its attempt is over, as it
    /// would run behind its own release; a release always is.
    fn send<'c>(
        &'c self,
        command: &'c Command,
        may_be_behind: &'c mut bool,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'c {
        let member = self.attempt.member(self.node);
        let mut execute = member.execute(command, self.within);
        let mut is_first = true;
        poll_fn(move |cx| {
            let is_first = mem::take(&mut is_first);
            if is_first && self.purpose != Purpose::Release && self.attempt.is_over() {
                return Poll::Ready(Err(NodeError::not_sent("not asked: the attempt is over")));
            }
            let poll = execute.poll_unpin(cx);
            // A call counts from its first poll: a release that follows if the attempt is not over
            // yet goes behind it.
            if is_first {
                *may_be_behind = self.attempt.is_over();
            }
            poll
        })
    }
}

impl Work for Call {
    type Output = Done;

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` holds each argument twice, and calls go from core to \
                  core, where it counts how much of the cache they take"
    )]
    fn run(self) -> impl Future<Output = Done> + Send {
        async move {
            let mut may_be_behind = false;
            let mut result = self.send(&self.command, &mut may_be_behind).await;
            if self.command.is_digest() && result.as_ref().is_err_and(NodeError::is_no_script) {
                // The server does not know the script, so nothing ran: sends its source. Boxed, as
                // all rare things here.
                let command = self.command.with_source();
                result = Box::pin(self.send(&command, &mut may_be_behind)).await;
            }
            let operation = self.command.operation();
            let vote = Vote::read(self.purpose, operation, result, may_be_behind);
            drop(self.probe);
            Done {
                node: self.node,
                vote,
            }
        }
    }
}

impl Recycled for Call {
    fn idle() -> &'static LocalKey<Idle<Self>> {
        thread_local! {
            static IDLE: Idle<Call> = const { RefCell::new(Vec::new()) };
        }
        &IDLE
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

impl Vote {
    fn read(
        purpose: Purpose,
        operation: &Operation,
        result: Result<Reply, NodeError>,
        may_be_behind: bool,
    ) -> Self {
        let key_answer = |reply| KeyAnswer::read(operation, &reply);
        match purpose {
            Purpose::Acquire | Purpose::Heal => Self::Acquire {
                vote: result.and_then(|reply| AcquireAnswer::read(operation, reply)),
                may_be_behind,
            },
            Purpose::Extend => Self::Extend(result.and_then(key_answer)),
            Purpose::Release => Self::Release(result.and_then(key_answer)),
        }
    }
}
