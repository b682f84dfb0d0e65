//! Connects as a pool of bb8 does.

use std::any::Any;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bb8::{ManageConnection, Pool};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, ready, select};
use lock_core::backend::{Client, Connection, Opened};
use lock_core::node::NodeErrorKind;
use lock_core::runtime::ambient;
use lock_core::{Command, NodeError, Reply};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError};

use crate::connection::request;
use crate::convert::{pack, server_error_of};
use crate::dial_error::cannot_connect;
use crate::limit::within;
use crate::network::Network;

/// Longer than any call: calls have deadlines of their own.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How many calls may be under way that somebody waits for: as many as redis-rs's queue has places by
/// default. Calls that wait for a place there could overtake each other (rule N12).
const WINDOW: usize = 50;

/// How often a connection is looked after. redis-rs does not tell when a server closes one, and servers
/// do that to idle ones: the next call would fail, on all nodes of a lock at once.
const LOOK_EVERY: Duration = Duration::from_secs(5);

type BoxError = Box<dyn Error + Send + Sync>;

/// A pool, whose manager opens the connections.
pub(crate) struct Pooled {
    label: String,
    pool: Box<dyn Manager>,
}

/// What is needed of a pool, without its types.
trait Manager: Send + Sync {
    fn connect(&self) -> BoxFuture<'_, Result<Opened<Queue>, BoxError>>;
}

impl Pooled {
    pub(crate) fn new<M>(label: String, pool: Pool<M>) -> Self
    where
        M: ManageConnection,
        M::Connection: ConnectionLike + Clone + Sync,
        M::Error: Error + Sync,
    {
        Self {
            label,
            pool: Box::new(pool),
        }
    }
}

impl Client for Pooled {
    type Connection = Queue;

    fn label(&self) -> &str {
        &self.label
    }

    async fn connect(&self, limit: Duration) -> Result<Opened<Queue>, NodeError> {
        if Network::current()? != Network::Tokio {
            return Err(NodeError::not_sent("a pool of bb8 needs a tokio runtime"));
        }
        match within(limit, self.pool.connect()).await {
            Some(opened) => opened.map_err(cannot_connect),
            None => Err(cannot_connect(NotReady(limit))),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the pool's manager had no connection ready in {0:?}")]
struct NotReady(Duration);

impl<M> Manager for Pool<M>
where
    M: ManageConnection,
    M::Connection: ConnectionLike + Clone + Sync,
    M::Error: Error + Sync,
{
    fn connect(&self) -> BoxFuture<'_, Result<Opened<Queue>, BoxError>> {
        Box::pin(async {
            let mut connection = self.dedicated_connection().await.map_err(cause)?;
            lift_timeout(&mut connection);
            let (queue, calls) = unbounded();
            Ok(Opened::new(Queue(queue), carry(connection, calls)))
        })
    }
}

/// redis-rs would end calls after 500 ms by default, however long they may take. The timeout is one of
/// this handle alone.
fn lift_timeout(connection: &mut dyn Any) {
    if let Some(connection) = connection.downcast_mut::<MultiplexedConnection>() {
        connection.set_response_timeout(NO_TIMEOUT);
    }
}

/// With the server's code, which redis-rs does not always show.
fn cause<E: Error + Send + Sync + 'static>(error: E) -> BoxError {
    let error: BoxError = error.into();
    match error.downcast::<RedisError>() {
        Ok(error) => match server_error_of(*error) {
            Ok(answer) => answer.into(),
            Err(error) => error.into(),
        },
        Err(error) => error,
    }
}

/// Calls on their way into a connection, in order. The keeper bounds how many there are.
pub(crate) struct Queue(UnboundedSender<Call>);

struct Call {
    cmd: Arc<Cmd>,
    to: oneshot::Sender<Result<Reply, NodeError>>,
}

impl Connection for Queue {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let queue = self.0.clone();
        let cmd = command.encoded(pack);
        async move {
            let broken = || NodeError::connection("the connection broke");
            let (to, answer) = oneshot::channel();
            queue
                .unbounded_send(Call { cmd, to })
                .map_err(|_| broken())?;
            answer.await.unwrap_or_else(|_| Err(broken()))
        }
    }
}

/// Carries calls into the connection until it breaks.
///
/// One task does this for all callers: it keeps their order, and runs where the connection was opened,
/// to whose runtime timers of its own may be bound.
async fn carry<C>(connection: C, calls: UnboundedReceiver<Call>) -> NodeError
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let ends = calls
        .map(|call| carry_one(connection.clone(), call))
        .buffer_unordered(WINDOW)
        .filter_map(ready);
    match select(pin!(ends).next(), pin!(look(connection.clone()))).await {
        Either::Left((Some(broken), _)) | Either::Right((broken, _)) => broken,
        Either::Left((None, _)) => NodeError::connection("the connection is not used any more"),
    }
}

/// Returns the error if the connection turns out to be broken.
async fn carry_one<C>(connection: C, Call { cmd, mut to }: Call) -> Option<NodeError>
where
    C: ConnectionLike + Send,
{
    let answer = match select(to.cancellation(), pin!(request(connection, cmd))).await {
        // A call that was given up makes room, for its own release too.
        Either::Left(_) => return None,
        Either::Right((answer, _)) => answer,
    };
    let broken = broken(&answer);
    // The caller may be gone by now.
    to.send(answer).ok();
    broken
}

/// Returns the error once the connection turns out to be broken.
async fn look<C>(connection: C) -> NodeError
where
    C: ConnectionLike + Clone + Send,
{
    let ping = Arc::new(redis::cmd("PING"));
    loop {
        ambient().sleep(LOOK_EVERY).await;
        let answer = request(connection.clone(), Arc::clone(&ping)).await;
        if let Some(broken) = broken(&answer) {
            return broken;
        }
    }
}

fn broken(answer: &Result<Reply, NodeError>) -> Option<NodeError> {
    let error = answer.as_ref().err();
    error
        .filter(|error| error.kind() == NodeErrorKind::Connection)
        .cloned()
}
