//! What commands are sent over.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use lock_core::backend::Connection;
use lock_core::node::Operation;
use lock_core::{Command, NodeError, Reply};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};

use crate::checked::{Heard, longest_reply};
use crate::convert::{pack, reply, server_error_of};
use crate::network::unconstrained;

/// A connection of our own. Its queue has a place for each call that the keeper lets in, so that a
/// first poll always hands its command over.
#[derive(Clone)]
pub(crate) struct Own {
    connection: MultiplexedConnection,
    heard: Heard,
}

impl Own {
    pub(crate) fn new(connection: MultiplexedConnection, heard: Heard) -> Self {
        Self { connection, heard }
    }

    /// Sends the command at the first poll. Not an `async fn`, whose future would have the connection twice.
    pub(crate) fn request(
        &self,
        cmd: Arc<Cmd>,
        is_long: bool,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (mut connection, heard) = (self.connection.clone(), self.heard.clone());
        async move {
            heard.asks(longest_reply(cmd.args_iter().count(), is_long));
            match connection.send_packed_command(&cmd).await {
                Ok(value) => reply(value),
                Err(error) => Err(told(error)),
            }
        }
    }

    /// Sends two commands with nothing in between at the first poll, and waits for the reply to the second one.
    pub(crate) fn request_both(
        &self,
        both: Pipeline,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (mut connection, heard) = (self.connection.clone(), self.heard.clone());
        async move {
            for cmd in both.cmd_iter() {
                heard.asks(longest_reply(cmd.args_iter().count(), false));
            }
            match connection.send_packed_commands(&both, 1, 1).await {
                Ok(values) => reply(values.into_iter().next().unwrap_or(Value::Nil)),
                Err(error) => Err(told(error)),
            }
        }
    }

    /// What is published then goes to the listener of its address.
    pub(crate) async fn subscribe(mut self, channel: &str) -> Result<(), NodeError> {
        // A push confirms it, and answers nothing; but it may be denied.
        self.heard.asks(2);
        let subscribed = self.connection.subscribe(channel);
        subscribed.await.map_err(told)
    }
}

fn told(error: RedisError) -> NodeError {
    match server_error_of(error) {
        Ok(answer) => answer,
        // redis-rs answers every later call on this connection with an error. It does not say whether
        // this command was sent.
        Err(error) => NodeError::connection("the connection broke").with_source(error),
    }
}

impl Connection for Own {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let is_scan = matches!(command.operation(), Operation::Scan { .. });
        unconstrained(self.request(command.encoded(pack), is_scan))
    }
}

/// A connection that other code has opened, without its type.
pub(crate) trait Foreign: Send + Sync {
    /// Sends the command at the first poll, unless it has to wait for a place there.
    fn send(&self, command: &Command) -> BoxFuture<'static, Result<Reply, NodeError>>;
}

impl<C> Foreign for C
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn send(&self, command: &Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        Box::pin(request(self.clone(), command.encoded(pack)))
    }
}

/// Sends the command over a connection that other code has opened.
pub(crate) async fn request<C>(mut connection: C, cmd: Arc<Cmd>) -> Result<Reply, NodeError>
where
    C: ConnectionLike + Send,
{
    let start = Instant::now();
    match unconstrained(connection.req_packed_command(&cmd)).await {
        Ok(value) => reply(value),
        Err(error) => Err(match server_error_of(error) {
            Ok(answer) => answer,
            // The connection's own timeout was shorter than ours.
            Err(error) if error.is_timeout() => {
                NodeError::no_answer(start.elapsed()).with_source(error)
            }
            Err(error) => NodeError::connection("the connection failed").with_source(error),
        }),
    }
}
