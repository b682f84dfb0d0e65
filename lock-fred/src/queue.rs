//! Calls that wait for the connection, in their order.
//!
//! fred would keep commands until it is connected, too, but could not be told that a caller has
//! given up: it would send them then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fred::error::Error;
use fred::types::Resp3Frame;
use lock_core::{Command, NodeError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::convert::pack;
use crate::link::{Link, Marks};

/// How many calls may wait for one connect.
const WAITING: usize = 4 * 1024;

/// Calls that wait for one connect.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    calls: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    command: Command,
    start: Instant,
    within: Duration,
    ticket: oneshot::Sender<Result<Sent, NodeError>>,
}

/// A call's place in the queue. Dropping it gives the place up: nothing is sent then.
pub(crate) type Ticket = oneshot::Receiver<Result<Sent, NodeError>>;

/// A command that is on its way.
pub(crate) struct Sent {
    pub(crate) link: Arc<Link>,
    pub(crate) outcome: Outcome,
}

/// What is known of a request after its first poll.
pub(crate) enum Outcome {
    Pending(Pin<Box<dyn Future<Output = Result<Resp3Frame, Error>> + Send>>),
    Ready(Result<Resp3Frame, Error>),
}

impl Queue {
    pub(crate) fn enter(
        &mut self,
        command: &Command,
        within: Duration,
    ) -> Result<Ticket, NodeError> {
        // Those who gave up make room.
        if self.calls.len() >= WAITING {
            self.calls.retain(|call| !call.ticket.is_closed());
        }
        if self.calls.len() >= WAITING {
            return Err(NodeError::not_sent(
                "too many calls wait for the connection",
            ));
        }
        let (sender, ticket) = oneshot::channel();
        self.calls.push(Waiting {
            command: command.clone(),
            start: Instant::now(),
            within,
            ticket: sender,
        });
        Ok(ticket)
    }

    /// Sends every call that still waits, in order.
    pub(crate) fn send(self, link: &Arc<Link>) {
        for call in self.calls {
            call.send(link);
        }
    }

    pub(crate) fn fail(self, error: &NodeError) {
        for call in self.calls {
            // Who has left needs no error.
            call.ticket.send(Err(error.clone())).ok();
        }
    }
}

impl Waiting {
    fn send(self, link: &Arc<Link>) {
        let left = self.within.saturating_sub(self.start.elapsed());
        if self.ticket.is_closed() || left.is_zero() {
            return;
        }
        let packed = self.command.encoded(pack);
        let mut request = Box::pin(link.request(&packed, left));
        // The first poll sends. Nobody is woken by it: the call polls again when it is told.
        let outcome = match request
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(result) => Outcome::Ready(result),
            Poll::Pending => Outcome::Pending(request),
        };
        let link = Arc::clone(link);
        if let Err(Ok(sent)) = self.ticket.send(Ok(Sent { link, outcome })) {
            // The caller left at this very moment.
            let operation = self.command.operation();
            sent.link.unanswered(operation, Marks::default(), false);
        }
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sent")
    }
}
