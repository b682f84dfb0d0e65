//! Calls that wait for the connection, in their order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use lock_core::NodeError;
use redis::{Cmd, RedisResult, Value};

use crate::link::Link;
use crate::locked;
use crate::request::Request;

/// How many calls may wait for one connect.
const WAITING: usize = 4 * 1024;

/// Calls that wait for one connect.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    calls: VecDeque<Arc<Mutex<Seat>>>,
}

/// A call's place in the queue. Dropping it gives the place up: nothing is sent then.
#[derive(Debug)]
pub(crate) struct Ticket {
    seat: Arc<Mutex<Seat>>,
}

enum Seat {
    Waiting(Cmd, Waker),
    /// The command is on its way.
    Sent(Arc<Link>, Outcome),
    Failed(NodeError),
    Left,
}

/// What is known of a request after its first poll.
pub(crate) enum Outcome {
    Pending(Request),
    Ready(RedisResult<Value>),
}

impl Queue {
    pub(crate) fn enter(&mut self, cmd: Cmd) -> Result<Ticket, NodeError> {
        if self.calls.len() >= WAITING {
            return Err(NodeError::not_sent(
                "too many calls wait for the connection",
            ));
        }
        let seat = Arc::new(Mutex::new(Seat::Waiting(cmd, Waker::noop().clone())));
        self.calls.push_back(Arc::clone(&seat));
        Ok(Ticket { seat })
    }

    /// Sends every call that still waits, in order.
    pub(crate) fn send(self, link: &Arc<Link>) -> Wakers {
        let seats = self.calls.iter();
        Wakers(seats.filter_map(|seat| locked(seat).send(link)).collect())
    }

    pub(crate) fn fail(self, error: &NodeError) -> Wakers {
        let seats = self.calls.iter();
        Wakers(seats.filter_map(|seat| locked(seat).fail(error)).collect())
    }
}

/// Those who are told. A waker is foreign code, and may drop the very call that it is to wake: so it
/// is woken when no lock is held.
#[must_use]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl Seat {
    fn send(&mut self, link: &Arc<Link>) -> Option<Waker> {
        if let Self::Waiting(cmd, waker) = std::mem::replace(self, Self::Left) {
            let mut request = link.request(Arc::new(cmd));
            // The first poll sends. Nobody is woken by it: the call polls again when it is told.
            let first = request.poll_unpin(&mut Context::from_waker(Waker::noop()));
            let outcome = match first {
                Poll::Ready(result) => Outcome::Ready(result),
                Poll::Pending => Outcome::Pending(request),
            };
            *self = Self::Sent(Arc::clone(link), outcome);
            return Some(waker);
        }
        None
    }

    fn fail(&mut self, error: &NodeError) -> Option<Waker> {
        if let Self::Waiting(_, waker) = std::mem::replace(self, Self::Left) {
            *self = Self::Failed(error.clone());
            return Some(waker);
        }
        None
    }
}

impl Ticket {
    /// Waits until the command is sent, or surely will not be.
    pub(crate) fn sent(
        &self,
    ) -> impl Future<Output = Result<(Arc<Link>, Outcome), NodeError>> + Unpin {
        poll_fn(|cx| {
            let mut seat = locked(&self.seat);
            if let Seat::Waiting(_, waker) = &mut *seat {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            Poll::Ready(match std::mem::replace(&mut *seat, Seat::Left) {
                Seat::Sent(link, outcome) => Ok((link, outcome)),
                Seat::Failed(error) => Err(error),
                Seat::Waiting(..) | Seat::Left => Err(NodeError::not_sent("not connected")),
            })
        })
    }

    /// Gives the place up. Returns the connection if the command was sent before.
    pub(crate) fn leave(&self) -> Option<Arc<Link>> {
        // Its waker is foreign code: not dropped under the lock.
        let left = std::mem::replace(&mut *locked(&self.seat), Seat::Left);
        match left {
            Seat::Sent(link, _) => Some(link),
            Seat::Waiting(..) | Seat::Failed(_) | Seat::Left => None,
        }
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting(..) => "Waiting",
            Self::Sent(..) => "Sent",
            Self::Failed(_) => "Failed",
            Self::Left => "Left",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    /// The last owner of a call, as the waker of an executor that has ended may be.
    struct Owner(Ticket);

    impl Wake for Owner {
        fn wake(self: Arc<Self>) {
            assert!(self.0.leave().is_none());
        }
    }

    #[test]
    fn whoever_is_woken_may_drop_the_call() {
        let mut queue = Queue::default();
        let ticket = queue.enter(Cmd::new()).unwrap();
        let seat = Arc::clone(&ticket.seat);
        let waker = Waker::from(Arc::new(Owner(ticket)));
        let waiting = Ticket { seat };
        let poll = waiting.sent().poll_unpin(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        drop(waker);
        queue.fail(&NodeError::not_sent("down")).wake();
        assert!(matches!(*locked(&waiting.seat), Seat::Left));
    }
}
