//! One call: a command goes out, its reply comes back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::types::Resp3Frame;
use futures::future::BoxFuture;
use lock_core::{Command, NodeError, Reply};
use tokio::time::timeout;

use crate::connector::{Admission, Connector};
use crate::convert::{cause, pack, reply, server_error};
use crate::link::{Link, Marks};
use crate::queue::{Outcome, Sent, Ticket};

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
        let link = match connector.admit(command, within)? {
            Admission::Send(link) => link,
            Admission::Wait(ticket) => {
                // Boxed, so that the common call has no room for it.
                return Box::pin(execute_queued(connector, command, within, ticket)).await;
            }
        };
        let marks = link.marks();
        let mut call = Call::new(connector, command, link, marks);
        let request = pin!(call.link.request(&command.encoded(pack), within));
        let answer = call.link.answer(request).await;
        call.end(answer, within)
    })
}

#[cold]
async fn execute_queued(
    connector: &Arc<Connector>,
    command: &Command,
    within: Duration,
    ticket: Ticket,
) -> Result<Reply, NodeError> {
    let mut place = Place {
        connector,
        command,
        ticket,
    };
    let sent = match timeout(within, &mut place.ticket).await {
        Ok(Ok(sent)) => sent?,
        // It may have been sent at the last moment.
        Ok(Err(_)) | Err(_) => connector.leave(&mut place.ticket)?,
    };
    let Sent { link, outcome } = sent;
    // Sent when nothing had happened on the connection yet.
    let mut call = Call::new(connector, command, link, Marks::default());
    let answer = match outcome {
        Outcome::Ready(answer) => answer,
        Outcome::Pending(mut request) => call.link.answer(request.as_mut()).await,
    };
    call.end(answer, within)
}

/// A call in the queue. If it is dropped after its command was sent, the command is in doubt.
struct Place<'c> {
    connector: &'c Arc<Connector>,
    command: &'c Command,
    ticket: Ticket,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.ticket.close();
        if let Ok(Ok(sent)) = self.ticket.try_recv() {
            let marks = Marks::default();
            drop(Call::new(self.connector, self.command, sent.link, marks));
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
    fn new(
        connector: &'c Arc<Connector>,
        command: &'c Command,
        link: Arc<Link>,
        marks: Marks,
    ) -> Self {
        Self {
            connector,
            command,
            link,
            marks,
            ended: false,
        }
    }

    fn end(
        &mut self,
        answer: Result<Resp3Frame, Error>,
        within: Duration,
    ) -> Result<Reply, NodeError> {
        self.ended = true;
        match answer {
            Ok(frame) => {
                if self.link.answered(self.marks) {
                    self.connector.proven();
                }
                reply(frame)
            }
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                self.unanswered(true);
                Err(NodeError::no_answer(within))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// fred has given the connection up, and does not say whether this command was sent.
    #[cold]
    fn failed(&self, error: Error) -> NodeError {
        self.connector.lost(&self.link, Some(error.clone()));
        // Some answers are the end of the connection for fred, which are worth more than that.
        server_error(&error).unwrap_or_else(|| {
            NodeError::connection("the connection broke").with_source(cause(error))
        })
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
