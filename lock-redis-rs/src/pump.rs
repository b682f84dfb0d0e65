//! Carries commands into a connection that somebody else's code opened.
//!
//! Such a connection may have a queue of no more than 50 places, redis-rs's default, and calls that
//! wait for a place could overtake each other (rule N12). It may have timers, which are bound to the
//! runtime that first polls a call, whoever polls it later. So all its calls are polled by one task,
//! on the runtime of the connection, which never has more of them under way than there are places.

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::rt::Driver;

/// How many calls may be under way: as many as redis-rs's queue has places.
const WINDOW: usize = 50;

/// How often a connection that nobody uses is looked after. redis-rs does not tell when a server
/// closes one, and servers do that to idle ones: the next call would fail, on all nodes of a lock
/// at once.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A way into the queue of a connection.
#[derive(Clone)]
pub(crate) struct Pump {
    queue: UnboundedSender<Message>,
}

struct Message {
    cmd: Cmd,
    /// `None` for a command that nobody waits for.
    to: Option<oneshot::Sender<RedisResult<Value>>>,
}

/// How a call ended.
enum End {
    Fine,
    /// The connection is of no use any more.
    Broken,
}

impl Pump {
    /// A pump, and what has to run for it to work.
    pub(crate) fn new<C>(connection: C) -> (Self, Driver)
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let (queue, messages) = unbounded();
        (Self { queue }, Box::pin(drive(connection, messages)))
    }

    /// Puts the command in the queue at the first poll, and waits for its answer. If this is
    /// dropped before the command has left the queue, it is not sent.
    pub(crate) async fn send(&self, cmd: &Cmd) -> RedisResult<Value> {
        if cmd.is_no_response() {
            return self.enter(cmd, None).map(|()| Value::Nil);
        }
        let (to, answer) = oneshot::channel();
        self.enter(cmd, Some(to))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    fn enter(&self, cmd: &Cmd, to: Option<oneshot::Sender<RedisResult<Value>>>) -> RedisResult<()> {
        let cmd = cmd.clone();
        let entered = self.queue.unbounded_send(Message { cmd, to });
        entered.map_err(|_| gone())
    }
}

fn gone() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// Runs until the connection breaks or nobody can call any more.
async fn drive<C>(connection: C, messages: UnboundedReceiver<Message>)
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let mut calls = Calls {
        connection,
        messages,
        next: None,
        under_way: FuturesUnordered::new(),
        was_used: false,
    };
    let mut look = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Unconstrained, for the reason given in `rt`.
    let driving = poll_fn(|cx| {
        while look.poll_tick(cx).is_ready() {
            calls.look();
        }
        calls.poll(cx)
    });
    unconstrained(driving).await;
}

struct Calls<C> {
    connection: C,
    messages: UnboundedReceiver<Message>,
    /// A call that is to leave next, and waits for others to end.
    next: Option<Message>,
    under_way: FuturesUnordered<BoxFuture<'static, End>>,
    /// Whether anybody called since the last look.
    was_used: bool,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Calls<C> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // Those that left before go first, so that none is overtaken on its way into the
            // connection's own queue.
            if self.poll_under_way(cx).is_break() {
                return Poll::Ready(());
            }
            let Some(message) = ready!(self.poll_message(cx)) else {
                return Poll::Ready(());
            };
            self.was_used = true;
            self.send(message);
        }
    }

    fn poll_under_way(&mut self, cx: &mut Context<'_>) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        while let Poll::Ready(Some(end)) = self.under_way.poll_next_unpin(cx) {
            if let End::Broken = end {
                // Not at once: others may have their answers already.
                flow = ControlFlow::Break(());
            }
        }
        flow
    }

    /// The next command that may leave; `None` if there will be none.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        loop {
            let mut message = match self.next.take() {
                Some(message) => message,
                None => match ready!(self.messages.poll_next_unpin(cx)) {
                    Some(message) => message,
                    None => return Poll::Ready(None),
                },
            };
            // A command that nobody waits for takes no place: it belongs behind others, which
            // may have taken all places.
            let Some(to) = &mut message.to else {
                return Poll::Ready(Some(message));
            };
            if to.poll_canceled(cx).is_ready() {
                continue;
            }
            if self.under_way.len() < WINDOW {
                return Poll::Ready(Some(message));
            }
            self.next = Some(message);
            return Poll::Pending;
        }
    }

    fn send(&self, Message { cmd, to }: Message) {
        let mut connection = self.connection.clone();
        // It is kept to its end even if nobody waits for it any more: it has its place in the
        // connection's queue until then.
        let call = async move {
            let answer = connection.req_packed_command(&cmd).await;
            let error = answer.as_ref().err();
            let is_timeout = error.is_some_and(RedisError::is_timeout);
            let is_broken = error.is_some_and(RedisError::is_unrecoverable_error);
            match to {
                // The connection has lost patience: that breaks nothing, and the caller has a
                // deadline of his own.
                Some(mut to) if is_timeout => to.cancellation().await,
                // Who has gone meanwhile does not want it.
                Some(to) => drop(to.send(answer)),
                None => {}
            }
            if is_broken { End::Broken } else { End::Fine }
        };
        self.under_way.push(call.boxed());
    }

    /// Asks an idle connection whether it is alive.
    fn look(&mut self) {
        if !self.was_used && self.under_way.is_empty() {
            let (cmd, to) = (redis::cmd("PING"), None);
            self.send(Message { cmd, to });
        }
        self.was_used = false;
    }
}

#[cfg(test)]
mod tests;
