//! A connection from a pool's manager.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bb8::{ManageConnection, Pool};
use futures::future::BoxFuture;
use lock_core::NodeError;
use redis::RedisError;
use redis::aio::{ConnectionLike, MultiplexedConnection};

use crate::RedisRsNode;
use crate::dial::{Dial, Dialed, cannot_connect};
use crate::exchange::server_error_of;
use crate::pump::Pump;
use crate::rt::{Runtime, after};
use crate::wire::Wire;

/// Longer than any call: calls have deadlines of their own.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl RedisRsNode {
    /// A node that connects as a pool of the [`bb8`] crate does, for a service that has one
    /// (feature `bb8`).
    ///
    /// The pool's manager opens the connection, so that address, credentials, TLS and whatever else
    /// it takes are said in one place. `redis::Client` is such a manager, with the feature `bb8` of
    /// `redis`, which that of this crate switches on; so are its client for sentinels, the manager
    /// of `bb8-redis`, and each of your own whose connections can be cloned.
    ///
    /// `label` names the server in errors, as `host:port`. Two nodes of one lock must not share
    /// it, and it must hold no secret. Nothing is sent before the first call.
    ///
    /// ```no_run
    /// # use lock_redis_rs::RedisRsNode;
    /// # fn build(pool: bb8::Pool<redis::Client>) -> RedisRsNode {
    /// RedisRsNode::from_pool("redis-1.internal:6379", pool)
    /// # }
    /// ```
    ///
    /// # Beside the pool, not out of it
    ///
    /// The node checks nothing out. It has one connection of its own, made by
    /// [`Pool::dedicated_connection`], and keeps it as one of [`new`](Self::new): opened at the first
    /// call, inside the time that the call may take, and replaced when it breaks or hangs. That is
    /// better than a checkout:
    ///
    /// - Commands for one key must leave on one connection (rule N12), and a checkout gives any.
    /// - A connection belongs to whoever has checked it out. A lock that kept a handle to it would
    ///   stand still behind your `BLPOP`, and its commands would end up in your `MULTI` or in the
    ///   database of your `SELECT`.
    /// - Locks go on while all pooled connections are in use: also when those who have them wait
    ///   for a lock.
    /// - When the server is away, a call says so at once and names the cause. A checkout waits for
    ///   the pool's `connection_timeout`, 30 s by default, and then tells of a timeout alone.
    ///
    /// # What it costs
    ///
    /// - One connection for each node, beside the `max_size` of the pool.
    /// - The pool's limits, times, statistics and its check at checkout do not concern it. How long
    ///   connecting may take is said by [`connect_timeout`](Self::connect_timeout).
    /// - Calls pass through a task of the node's, which keeps their order and has no more than 50
    ///   under way at a time, as many as redis-rs's queue has places. Measured on loopback, in turns
    ///   with a node of [`new`](Self::new), in pairs of `SET` and `EVALSHA` a second: with 64 tasks
    ///   87,800 instead of 134,100 on a current-thread runtime, and 85,200 instead of 117,700 on one
    ///   of two threads; with one task 30,300 instead of 32,900.
    /// - The pool, and with it its idle connections, lives as long as the node.
    ///
    /// So a pool gains a lock nothing but its manager. If all that takes is a `Client`,
    /// [`from_client`](Self::from_client) with a copy of it does more with less.
    ///
    /// # What can go wrong
    ///
    /// - bb8 is for tokio alone: a call from elsewhere, with the feature `smol`, is an error unless a
    ///   tokio runtime runs the connection already.
    /// - The connection must not send a command twice, neither after a timeout nor after a
    ///   reconnect: an acquire whose reply was lost would find its own key and take it for somebody
    ///   else's. redis-rs's own keeps to this, cluster connections do not.
    /// - redis-rs does not tell when the server closes a connection, so a `PING` finds out, every
    ///   5 s while nobody calls. A call before that ends with an error of the kind
    ///   [`Connection`](lock_core::node::NodeErrorKind::Connection). If an ACL denies `PING`, that
    ///   does no harm.
    /// - A wrong password or database is the cause that an error names, but without the server's
    ///   code.
    /// - The response timeout of a `MultiplexedConnection`, 500 ms by default, is lifted. A connection
    ///   of another type may have one that is shorter than the lock's node timeout: answers that come
    ///   later are lost then.
    /// - With a `pipeline_buffer_size` or a `concurrency_limit` below 50, calls that wait for a place
    ///   may leave in any order, so that a release can overtake its acquire. The key then stays
    ///   until its ttl.
    #[must_use]
    pub fn from_pool<M>(label: impl Into<String>, pool: Pool<M>) -> Self
    where
        M: ManageConnection,
        M::Connection: ConnectionLike + Clone + Sync,
        M::Error: Error + Sync,
    {
        Self::dialing(label.into(), Arc::new(Pooled(pool)))
    }
}

struct Pooled<M: ManageConnection>(Pool<M>);

impl<M> Dial for Pooled<M>
where
    M: ManageConnection,
    M::Connection: ConnectionLike + Clone + Sync,
    M::Error: Error + Sync,
{
    fn dial<'a>(
        &'a self,
        runtime: &'a Runtime,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, NodeError>> {
        Box::pin(async move {
            if !runtime.is_tokio() {
                return Err(NodeError::not_sent("a pool of bb8 needs a tokio runtime"));
            }
            let dedicated = self.0.dedicated_connection();
            match runtime.until(after(within), dedicated).await {
                Some(Ok(connection)) => Ok(dialed(connection)),
                Some(Err(error)) => Err(cannot_connect(cause(error))),
                None => Err(cannot_connect(NotReady(within))),
            }
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the pool's manager had no connection ready in {0:?}")]
struct NotReady(Duration);

fn dialed<C>(mut connection: C) -> Dialed
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    // redis-rs would end calls after 500 ms by default, however long they may take. The timeout is
    // one of this handle alone.
    if let Some(connection) =
        (&mut connection as &mut dyn Any).downcast_mut::<MultiplexedConnection>()
    {
        connection.set_response_timeout(NO_TIMEOUT);
    }
    let (pump, driver) = Pump::new(connection);
    Dialed {
        connection: Wire::Pumped(pump),
        driver: Some(driver),
    }
}

/// With the server's code, which redis-rs does not always show.
fn cause<E: Error + Send + Sync + 'static>(error: E) -> Box<dyn Error + Send + Sync> {
    let error: Box<dyn Error + Send + Sync> = error.into();
    match error.downcast::<RedisError>() {
        Ok(error) => match server_error_of(*error) {
            Ok(answer) => answer.into(),
            Err(error) => error.into(),
        },
        Err(error) => error,
    }
}
