//! One call: a command goes out, its reply comes back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::{Command, NodeError, Reply};
use redis::{RedisError, RedisResult, Value};

use crate::connector::{Admission, Connector};
use crate::convert::{pack, reply, server_error};
use crate::link::{Link, Marks};
use crate::queue::{Outcome, Ticket};
use crate::rt::Instant;
use crate::watch::Watch;

/// Sends the command, at most once, and waits for its reply.
///
/// No `async fn`, whose future holds each argument twice: one for each node of each acquire and each
/// release goes from core to core, and what counts there is how much of the cache they take.
pub(crate) fn execute<'c>(
    connector: &'c Arc<Connector>,
    command: &'c Command,
    within: Duration,
) -> BoxFuture<'c, Result<Reply, NodeError>> {
    Box::pin(async move {
        let (link, watch) = match connector.admit(command, within)? {
            Admission::Send(link, watch) => (link, watch),
            Admission::Wait(ticket, watch) => {
                // Boxed, so that the common call has no room for it.
                return Box::pin(execute_queued(connector, command, within, ticket, watch)).await;
            }
        };
        let mut call = Call::new(connector, command, link);
        let request = call.link.request(command.encoded(pack));
        let watch = watch.as_deref().unwrap_or_else(|| call.link.watch());
        let answer = watch.limit(request, within).await;
        call.end(answer, within)
    })
}

#[cold]
async fn execute_queued(
    connector: &Arc<Connector>,
    command: &Command,
    within: Duration,
    ticket: Ticket,
    watch: Arc<Watch>,
) -> Result<Reply, NodeError> {
    let start = Instant::now();
    let place = Waiting {
        connector,
        command,
        ticket,
    };
    let sent = watch.limit(place.ticket.sent(), within).await;
    let (link, outcome) = match sent {
        Some(sent) => sent?,
        // It may have been sent at the last moment.
        None => match place.ticket.leave() {
            Some(link) => return Call::queued(connector, command, link).end(None, within),
            None => return Err(connector.still_connecting()),
        },
    };
    let mut call = Call::queued(connector, command, link);
    let answer = match outcome {
        Outcome::Ready(answer) => Some(answer),
        Outcome::Pending(request) => {
            let left = within.saturating_sub(start.elapsed());
            watch.limit(request, left).await
        }
    };
    call.end(answer, within)
}

/// A call in the queue. If it is dropped after its command was sent, the command is in doubt.
struct Waiting<'c> {
    connector: &'c Arc<Connector>,
    command: &'c Command,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.ticket.leave() {
            drop(Call::queued(self.connector, self.command, link));
        }
    }
}

/// A call whose command is about to be sent, or was. If it is dropped before its reply, the
/// command is in doubt.
struct Call<'c> {
    connector: &'c Arc<Connector>,
    command: &'c Command,
    link: Arc<Link>,
    marks: Marks,
    ended: bool,
}

impl<'c> Call<'c> {
    fn new(connector: &'c Arc<Connector>, command: &'c Command, link: Arc<Link>) -> Self {
        Self {
            connector,
            command,
            marks: link.marks(),
            link,
            ended: false,
        }
    }

    /// A call that waited for the connection, and so was sent when nothing had happened on it.
    fn queued(connector: &'c Arc<Connector>, command: &'c Command, link: Arc<Link>) -> Self {
        Self {
            connector,
            command,
            marks: Marks::default(),
            link,
            ended: false,
        }
    }

    fn end(
        &mut self,
        answer: Option<RedisResult<Value>>,
        within: Duration,
    ) -> Result<Reply, NodeError> {
        self.ended = true;
        match answer {
            Some(Ok(value)) => {
                self.answered();
                reply(value)
            }
            Some(Err(error)) => self.failed(error),
            None => {
                self.unanswered(true);
                Err(NodeError::no_answer(within))
            }
        }
    }

    fn answered(&self) {
        if self.link.answered(self.marks) {
            self.connector.proven();
        }
    }

    #[cold]
    fn failed(&self, error: RedisError) -> Result<Reply, NodeError> {
        let error = match server_error_of(error) {
            Ok(answer) => {
                self.answered();
                return Err(answer);
            }
            Err(error) => error,
        };
        // redis-rs answers every later call on this connection with an error. It does not say
        // whether this command was sent.
        self.connector.lost(&self.link);
        Err(NodeError::connection("the connection broke").with_source(error))
    }

    #[cold]
    fn unanswered(&self, timed_out: bool) {
        let operation = self.command.operation();
        if self.link.unanswered(operation, self.marks, timed_out) {
            self.connector.replace(&self.link);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.unanswered(false);
        }
    }
}

/// The server's answer, if the error is one.
pub(crate) fn server_error_of(error: RedisError) -> Result<NodeError, RedisError> {
    let is_server_error = error.code().is_some();
    if is_server_error
        && let Some(errors) = error.clone().into_server_errors()
        && let Some((_, error)) = errors.first()
    {
        return Ok(server_error(error));
    }
    Err(error)
}
