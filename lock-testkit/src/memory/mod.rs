//! A node that lives in this process.

mod calls;
mod fault;
pub(crate) mod keyspace;
mod server;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::future::{Either, select};
use lock_core::node::{Command, NodeError, RedisNode, Reply, Subscription};
use lock_core::runtime::{Runtime, ambient};

pub use calls::Calls;
pub use fault::Fault;
use keyspace::Value;
use server::{Call, Server, connection_lost};

/// A node in this process that answers as a Redis server does, for tests without a server.
///
/// ```
/// use lock_core::{AcquireError, DistributedLockExt, Redlock};
/// use lock_testkit::{Fault, MemoryNode};
///
/// # futures::executor::block_on(async {
/// let nodes = MemoryNode::several(3);
/// let locks = Redlock::new(nodes.clone())?;
///
/// let guard = locks.lock("invoice-7").await?;
/// assert_eq!(nodes[0].get("invoice-7").as_deref(), Some(guard.token().as_bytes()));
/// guard.release().await?;
/// assert!(nodes[0].keys().is_empty());
///
/// for node in &nodes[..2] {
///     node.set_fault(Fault::Refuse);
/// }
/// let outage = locks.try_lock("invoice-7").await;
/// assert!(matches!(outage, Err(AcquireError::Unavailable(_))));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Keys expire on the clock of a [`Runtime`]; under tokio's paused clock a test runs in virtual
/// time. A clone is another handle to the same node: give one to the lock and keep the other, to
/// switch faults on and off and to look at the keys.
///
/// The methods that look at the node or change it from outside ([`get`](Self::get),
/// [`set_foreign`](Self::set_foreign), ...) work whatever its fault, and do not count as calls.
///
/// # Order
///
/// The node takes commands in the order in which their futures are first polled, as over one
/// connection, and runs them in that order. A command that was sent runs even if its caller drops
/// the future or runs out of time, as with a real server.
///
/// # Subscriptions
///
/// The node cannot listen: [`RedisNode::subscribe`] answers with [`NodeError::cannot_listen`].
#[derive(Clone)]
pub struct MemoryNode {
    inner: Arc<Inner>,
}

struct Inner {
    label: String,
    runtime: OnceLock<Arc<dyn Runtime>>,
    server: Mutex<Server>,
}

impl MemoryNode {
    /// A node without keys, on the clock of the runtime in which it is first used: tokio's, with
    /// the feature `tokio` of `lock-core`, else the system's.
    ///
    /// It keeps that clock. Make a node in a `static`, which outlives the runtime of one test, with
    /// [`with_runtime`](Self::with_runtime) and
    /// [`ThreadRuntime::shared`](lock_core::runtime::ThreadRuntime::shared).
    pub fn new(label: impl Into<String>) -> Self {
        Self::build(label.into(), OnceLock::new())
    }

    /// `count` nodes that share nothing: `memory-1`, `memory-2`, ...
    #[must_use]
    pub fn several(count: usize) -> Vec<Self> {
        labels(count).map(Self::new).collect()
    }

    /// A node without keys, on the clock of the given runtime.
    pub fn with_runtime(label: impl Into<String>, runtime: Arc<dyn Runtime>) -> Self {
        Self::build(label.into(), OnceLock::from(runtime))
    }

    /// `count` nodes that share nothing but the runtime: `memory-1`, `memory-2`, ...
    #[must_use]
    pub fn several_with_runtime(count: usize, runtime: &Arc<dyn Runtime>) -> Vec<Self> {
        labels(count)
            .map(|label| Self::with_runtime(label, Arc::clone(runtime)))
            .collect()
    }

    fn build(label: String, runtime: OnceLock<Arc<dyn Runtime>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                label,
                runtime,
                server: Mutex::new(Server::new()),
            }),
        }
    }

    /// Gives the node a fault, in place of the one that it has.
    ///
    /// Commands that wait at a node that hung run now, under the new fault.
    pub fn set_fault(&self, fault: Fault) {
        self.with_server(|server, now| server.set_fault(Some(fault), now));
    }

    /// Ends the fault. Commands that wait at a node that hung run now, in their order; commands that
    /// are delayed arrive when they would have arrived.
    pub fn heal(&self) {
        self.with_server(|server, now| server.set_fault(None, now));
    }

    /// The node's fault, if it has one.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.with_server(|server, _| server.fault().cloned())
    }

    /// Loses all keys, like a server that restarts without persistence.
    ///
    /// Calls that wait for their answer lose their connection, and their commands never run. A fault
    /// stays.
    pub fn forget(&self) {
        self.with_server(|server, _| {
            server.disconnect();
            server.keyspace.forget();
        });
    }

    /// Returns how often the node was called.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.with_server(|server, _| server.calls)
    }

    /// Returns how many commands were sent and have not run yet, because the node hangs or delays.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.with_server(|server, _| server.waiting())
    }

    /// Returns the value of a key, or `None` if there is no such key or it is of another type.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.with_server(|server, now| server.keyspace.get(key.as_ref(), now))
    }

    /// Returns what Redis answers to `PTTL`: the remaining lifetime in milliseconds, -1 for a key
    /// without expiry, -2 if there is no such key.
    #[must_use]
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> i64 {
        self.with_server(|server, now| server.keyspace.pttl(key.as_ref(), now))
    }

    /// Returns all keys, in the order of their bytes.
    ///
    /// A release returns when a quorum of nodes has answered, so behind it a minority may have the key still:
    /// [`Redlock::flush`](lock_core::Redlock::flush) waits for those too.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.with_server(|server, now| server.keyspace.keys(now))
    }

    /// Sets a key without expiry, like a client that knows nothing about locks.
    pub fn set_foreign(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) {
        let value = Value::Bytes(value.into());
        self.with_server(|server, now| server.keyspace.set(key.as_ref(), value, now));
    }

    /// Sets a key to a value that is not a string, such as a hash or a list. The key has no expiry.
    pub fn set_other_type(&self, key: impl AsRef<[u8]>) {
        self.with_server(|server, now| server.keyspace.set(key.as_ref(), Value::OtherType, now));
    }

    /// Lets a key expire after `ttl`, whether that is later or earlier than before. Returns whether
    /// there is such a key.
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> bool {
        self.with_server(|server, now| server.keyspace.expire(key.as_ref(), ttl, now))
    }

    /// Deletes a key, regardless of its holder. Returns whether there was such a key.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> bool {
        self.with_server(|server, now| server.keyspace.remove(key.as_ref(), now))
    }

    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.inner.runtime.get_or_init(ambient)
    }

    /// Looks at the server as it is now, after everything that was due has run.
    fn with_server<T>(&self, look: impl FnOnce(&mut Server, Duration) -> T) -> T {
        let runtime = self.runtime();
        // Only a test could have panicked while it held the lock; the keys are whole.
        let mut server = (self.inner.server.lock()).unwrap_or_else(PoisonError::into_inner);
        let now = runtime.now();
        let wall = runtime.system_time().duration_since(UNIX_EPOCH);
        let wall = wall.unwrap_or_default();
        server.keyspace.set_clock(wall, now);
        server.run_due(now);
        let seen = look(&mut server, now);
        server.run_due(now);
        let answers = server.take_answers();
        drop(server);
        answers.give();
        seen
    }

    async fn answer(
        &self,
        call: Call,
        within: Duration,
        deadline: Duration,
    ) -> Result<Reply, NodeError> {
        let Call {
            mut answer,
            arrives_at,
        } = call;
        loop {
            match answer.try_recv() {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                Err(_canceled) => return Err(connection_lost()),
            }
            let now = self.runtime().now();
            if now >= deadline {
                return Err(NodeError::no_answer(within));
            }
            // Only its callers wake the node when a command arrives.
            let until = if now < arrives_at {
                arrives_at.min(deadline)
            } else {
                deadline
            };
            let sleep = self.runtime().sleep(until.saturating_sub(now));
            match select(&mut answer, sleep).await {
                Either::Left((Ok(answer), _)) => return answer,
                Either::Left((Err(_canceled), _)) => return Err(connection_lost()),
                Either::Right(_) => self.with_server(|_, _| ()),
            }
        }
    }
}

fn labels(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("memory-{number}"))
}

#[async_trait]
impl RedisNode for MemoryNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let (call, deadline) = self.with_server(|server, now| {
            let call = server.receive(command.operation(), now);
            (call, now.saturating_add(within))
        });
        self.answer(call?, within, deadline).await
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.inner.label
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode")
            .field("label", &self.inner.label)
            .finish_non_exhaustive()
    }
}
