//! Somebody else's connection.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use lock_core::{Command, NodeError, Reply};
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult, Value};

use crate::convert::{pack, reply};
use crate::exchange::server_error_of;
use crate::locked;
use crate::rt::{Runtime, unconstrained};
use crate::watch::Watches;

/// A connection that its owner takes care of.
pub(crate) struct Lent {
    connection: Box<dyn Lend>,
    watches: Mutex<Watches>,
}

/// What is needed of a connection, without its type.
trait Lend: Send + Sync {
    fn request(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Lend for C {
    fn request(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        async move { connection.req_packed_command(&cmd).await }.boxed()
    }
}

impl Lent {
    pub(crate) fn new<C>(connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self {
            connection: Box::new(connection),
            watches: Mutex::default(),
        }
    }

    pub(crate) async fn execute(
        &self,
        command: &Command,
        within: Duration,
    ) -> Result<Reply, NodeError> {
        // A connection with a response timeout of its own would panic where redis-rs has no
        // timers. It knows the runtimes that we know, or more.
        Runtime::current()?;
        let watch = locked(&self.watches).current()?;
        let start = Instant::now();
        let request = unconstrained(self.connection.request(pack(command)));
        match watch.limit(request, within).await {
            Some(Ok(value)) => reply(value),
            Some(Err(error)) => Err(match server_error_of(error) {
                Ok(answer) => answer,
                // The connection's own timeout was shorter than ours.
                Err(error) if error.is_timeout() => {
                    NodeError::no_answer(start.elapsed()).with_source(error)
                }
                Err(error) => NodeError::connection("the connection failed").with_source(error),
            }),
            None => Err(NodeError::no_answer(within)),
        }
    }
}
