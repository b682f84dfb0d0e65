//! Calls that wait for the connection, in their order.

use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::wake_all;
use crate::node::{Command, NodeError, Reply};
use crate::runtime::{BoxFuture, contain};
use crate::sync::locked;

/// How many calls may wait for one connect.
const MAX_WAITING: usize = 4 * 1024;

pub(super) type Answer = BoxFuture<'static, Result<Reply, NodeError>>;

#[derive(Default)]
pub(super) struct Queue {
    calls: Vec<Place>,
}

/// What is known of a call that entered the queue, on both sides.
type Place = Arc<Mutex<State>>;

enum State {
    Waiting(Waiting, Waker),
    /// The command is on its way.
    Sent(Answer),
    Failed(NodeError),
    /// The caller has the answer, or has gone.
    Left,
}

/// What it takes to send the command.
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) within: Duration,
    /// When it began to wait.
    pub(super) since: Duration,
    /// Ends the call, whether it was sent or not.
    pub(super) timer: BoxFuture<'static, ()>,
}

/// A call's side of its place. Dropping it gives the place up: nothing is sent then.
pub(super) struct Ticket(Place);

impl Queue {
    pub(super) fn enter(&mut self, call: Waiting) -> Result<Ticket, NodeError> {
        // Calls that were given up make room.
        if self.calls.len() >= MAX_WAITING {
            self.calls
                .retain(|place| !matches!(*locked(place), State::Left));
        }
        if self.calls.len() >= MAX_WAITING {
            return Err(NodeError::not_sent(
                "too many calls wait for the connection",
            ));
        }
        let state = State::Waiting(call, Waker::noop().clone());
        let place = Arc::new(Mutex::new(state));
        self.calls.push(Arc::clone(&place));
        Ok(Ticket(place))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Sends every call that still waits, in order. `start` makes the call of it, whose first poll
    /// sends.
    pub(super) fn send(mut self, start: impl Fn(Waiting) -> Answer) {
        if mutant!(WaitingCallsInAnyOrder) {
            self.calls.reverse();
        }
        for place in self.calls {
            resolve(&place, |mut call| {
                let cx = &mut Context::from_waker(Waker::noop());
                // The caller is about to find that its time is over.
                if call.timer.as_mut().poll(cx).is_ready() {
                    return State::Left;
                }
                // Nobody is woken by this poll: the call polls again when it is told.
                let first = contain(|| {
                    let mut answer = start(call);
                    let poll = answer.as_mut().poll(cx);
                    (answer, poll)
                });
                match first {
                    Some((answer, Poll::Pending)) => State::Sent(answer),
                    Some((_, Poll::Ready(answer))) => State::Sent(Box::pin(async { answer })),
                    None => State::Failed(NodeError::connection("the client panicked")),
                }
            });
        }
    }

    pub(super) fn fail(self, error: &NodeError) {
        for place in self.calls {
            resolve(&place, |_| State::Failed(error.clone()));
        }
    }
}

/// Decides about a call that still waits, and tells it.
fn resolve(place: &Place, decide: impl FnOnce(Waiting) -> State) {
    let mut state = locked(place);
    match mem::replace(&mut *state, State::Left) {
        State::Waiting(call, waker) => {
            *state = decide(call);
            // The waker is foreign code, and may drop the very call that it is to wake: so it is
            // woken when no lock is held.
            drop(state);
            wake_all(vec![waker]);
        }
        other => *state = other,
    }
}

impl Ticket {
    /// Waits until the command is on its way; `None` if its time ended before, and it never is sent.
    pub(super) async fn sent(&self) -> Option<Result<Answer, NodeError>> {
        poll_fn(|cx| {
            let mut state = locked(&self.0);
            let outcome = match mem::replace(&mut *state, State::Left) {
                State::Waiting(mut call, waker) => {
                    if call.timer.as_mut().poll(cx).is_pending() {
                        let newest = cx.waker().clone();
                        *state = State::Waiting(call, newest);
                        drop(state);
                        // It is foreign code: not dropped under the lock.
                        drop(waker);
                        return Poll::Pending;
                    }
                    if mutant!(WaitingCallsSentLate) {
                        call.timer = Box::pin(std::future::pending());
                        *state = State::Waiting(call, waker);
                    }
                    None
                }
                State::Sent(answer) => Some(Ok(answer)),
                State::Failed(error) => Some(Err(error)),
                State::Left => None,
            };
            drop(state);
            Poll::Ready(outcome)
        })
        .await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if mutant!(WaitingCallsSentLate) {
            return;
        }
        let left = mem::replace(&mut *locked(&self.0), State::Left);
        // A call that was sent is in doubt then.
        drop(left);
    }
}
