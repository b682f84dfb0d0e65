//! Settings of a lock, checked once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::guard::RestartGuard;
use super::node::{LockNode, Nodes};
use super::protocol::{NodeSet, Quorum};
use super::settings::Settings;
use crate::error::BuildError;
use crate::events::Events;
use crate::node::RedisNode;
use crate::note::Note;
use crate::observer::Observer;
use crate::retry::RetryPolicy;
use crate::runtime::Runtime;

/// Builds a [`Redlock`](crate::Redlock). Everything is checked in [`build`](Self::build), without IO.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{BuildError, Redlock};
/// # use lock_testkit::MemoryNode;
///
/// let locks = Redlock::builder()
///     .nodes(MemoryNode::several(5))
///     .prefix("shop:") // "invoice-7" is locked with the key "shop:invoice-7"
///     .ttl(Duration::from_secs(10))
///     .auto_extend(true)
///     .build()?;
/// assert_eq!(locks.nodes().count(), 5);
///
/// let impossible = Redlock::builder().nodes(MemoryNode::several(5)).quorum(2).build();
/// assert!(matches!(impossible, Err(BuildError::Quorum { quorum: 2, nodes: 5, .. })));
/// # Ok::<_, BuildError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct RedlockBuilder<N: ?Sized = dyn RedisNode> {
    nodes: Vec<Arc<N>>,
    /// The same nodes, as the engine knows them.
    members: Vec<LockNode>,
    /// `None` is a majority.
    quorum: Option<usize>,
    /// `None` is the host and the process.
    owner: Option<String>,
    /// Not checked yet, and with a quorum that stands for the one above.
    settings: Settings,
}

impl<N: RedisNode> RedlockBuilder<N> {
    /// Adds independent servers: at least one in all, at most 64, usually three or five. All processes
    /// that compete must list the same servers, preferably in the same order. A name must lead to one server,
    /// whichever of its addresses is taken. Defaults to none, which is an error.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        for node in nodes {
            let node = Arc::new(node);
            self.members.push(LockNode::new(Arc::clone(&node) as _));
            self.nodes.push(node);
        }
        self
    }
}

impl RedlockBuilder {
    /// Adds one independent server, for a lock over nodes of several types, which the lock then hides.
    /// Otherwise it is like [`nodes`](Self::nodes).
    ///
    /// ```
    /// use lock_core::{RedisNode, Redlock};
    /// # use lock_testkit::MemoryNode;
    ///
    /// # let [first, second, third] = ["a", "b", "c"].map(MemoryNode::new);
    /// # let second: std::sync::Arc<dyn RedisNode> = std::sync::Arc::new(second);
    /// let locks: Redlock = Redlock::builder().node(first).node(second).node(third).build()?;
    /// assert_eq!(locks.nodes().map(RedisNode::label).collect::<Vec<_>>(), ["a", "b", "c"]);
    /// # Ok::<_, lock_core::BuildError>(())
    /// ```
    pub fn node(mut self, node: impl RedisNode) -> Self {
        let node: Arc<dyn RedisNode> = Arc::new(node);
        self.members.push(LockNode::new(Arc::clone(&node)));
        self.nodes.push(node);
        self
    }
}

impl<N: RedisNode + ?Sized> RedlockBuilder<N> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            members: Vec::new(),
            quorum: None,
            owner: None,
            settings: Settings::default(),
        }
    }

    /// The prefix of each resource in its key. Defaults to nothing, so that these locks and those of
    /// other libraries with the same key exclude each other.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.settings.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Who holds these locks, in words for the people who look at them: at most 90 bytes, without control
    /// characters. It stands behind the random part of each key's value, and is shown by
    /// [`Contended`](crate::Contended), [`Redlock::inspect`](crate::Redlock::inspect) and any client of
    /// Redis. Nothing is decided by it. The empty text leaves it out, so that values are the random part
    /// alone. Defaults to the host and the process: `web-7f4c pid 4711`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How many nodes must agree: more than half of all of them, at most all. A larger quorum tolerates
    /// nodes that forget locks, and fewer nodes that fail. Defaults to a majority.
    pub fn quorum(mut self, quorum: usize) -> Self {
        self.quorum = Some(quorum);
        self
    }

    /// The ttl of requests that set none. Defaults to 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest wait of requests that set none; `None` waits without a limit. Defaults to 10 s.
    pub fn max_wait(mut self, max_wait: impl Into<Option<Duration>>) -> Self {
        self.settings.max_wait = max_wait.into();
        self
    }

    /// The pauses between attempts of requests that set none. Defaults to delays from 5 ms
    /// doubling to 200 ms, with full jitter.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.settings.retry = retry;
        self
    }

    /// How long a node may take to answer before it counts as failed: well above the time that a command
    /// takes over the network. A release is waited for ten times as long, a second at most unless this is
    /// longer. Defaults to a tenth of the ttl, at most 100 ms.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.settings.node_timeout = Some(node_timeout);
        self
    }

    /// How long a node that has never answered may take instead, because its client has to connect
    /// first. Defaults to 1 s; a longer node timeout takes precedence.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.settings.connect_timeout = connect_timeout;
        self
    }

    /// By how much the rates of any two clocks may differ, as a fraction. Defaults to 0.01, that is
    /// 1 %.
    pub fn drift_factor(mut self, drift_factor: f64) -> Self {
        self.settings.drift_factor = drift_factor;
        self
    }

    /// Whether locks of requests that do not say so are extended automatically, see
    /// [`LockRequest::auto_extend`]. Defaults to off.
    ///
    /// [`LockRequest::auto_extend`]: crate::LockRequest::auto_extend
    pub fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.settings.auto_extend = auto_extend;
        self
    }

    /// How long after one automatic extension the next one begins, see
    /// [`LockRequest::extend_interval`]. Defaults to a third of the validity of each lock.
    ///
    /// [`LockRequest::extend_interval`]: crate::LockRequest::extend_interval
    pub fn extend_interval(mut self, interval: Duration) -> Self {
        self.settings.extend_interval = Some(interval);
        self
    }

    /// For how long, from its acquisition on, a lock is extended automatically, see
    /// [`LockRequest::max_hold`](crate::LockRequest::max_hold). Defaults to one hour.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = max_hold;
        self
    }

    /// Whether a lock ends when the wall clock says that the machine was paused while it was held: when it
    /// has run ahead of the monotonic clock by more than the larger of 500 ms and the allowance for drift,
    /// since the lock was acquired or extended. The clocks of a virtual machine stand still while it is
    /// paused, and its locks expire; only the wall clock is set right afterwards, and until that has
    /// happened nothing can tell. A wall clock that is set forward costs a lock, but never grants one.
    /// Switch it off where the wall clock is unfit. Defaults to on.
    pub fn notice_pauses(mut self, notice: bool) -> Self {
        self.settings.notice_pauses = notice;
        self
    }

    /// Whether no command is to have more than one key: several resources are locked one after the other,
    /// and each lock is extended by a command of its own. For proxies that shard: they send a script to
    /// the server of its first key, all keys with it, and nobody says that the others belong elsewhere.
    /// Nodes of a cluster refuse such a command, and need no setting. Defaults to off.
    pub fn one_key_per_command(mut self, one_key: bool) -> Self {
        self.settings.one_key_per_command = one_key;
        self
    }

    /// Whether locks of requests that do not say so have a fencing token, see [`LockRequest::fencing`].
    /// Claims of [ticks](crate::tick) never do. Defaults to off.
    ///
    /// [`LockRequest::fencing`]: crate::LockRequest::fencing
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.settings.fencing = fencing;
        self
    }

    /// For how long after an acquisition a node keeps the counter of its fencing token: at least the ttl, at
    /// most 365 days. A counter that is gone, by this or since its node lost its data, begins again at the
    /// node's clock, which is above all tokens of the past unless it was set back behind them meanwhile. So
    /// a long retention is good against clocks that are set back, and costs memory for each resource that
    /// was locked in that time. Defaults to 7 days, or the ttl if that is longer.
    pub fn fencing_retention(mut self, retention: Duration) -> Self {
        self.settings.fencing_retention = Some(retention);
        self
    }

    /// Keeps nodes that may have forgotten locks from granting any for a while, see [`RestartGuard`]. The first use on
    /// new servers needs [`Redlock::bootstrap`](crate::Redlock::bootstrap). Defaults to none.
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.settings.restart_guard = Some(guard);
        self
    }

    /// The runtime that gives the time, random bytes and background tasks. Defaults to the runtime
    /// that polls the acquire: tokio's if there is one (feature `tokio`), else
    /// [`ThreadRuntime`](crate::runtime::ThreadRuntime).
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.settings.runtime = Some(runtime);
        self
    }

    /// What hears of locks and nodes, for metrics and alarms: see [`observer`](crate::observer). Defaults to
    /// none.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.events = Events::new(observer);
        self
    }

    /// Checks everything, and returns what a lock is made of.
    pub(super) fn checked(mut self) -> Result<(Engine, Vec<Arc<N>>), BuildError> {
        self.check_nodes()?;
        let nodes = self.nodes.len();
        self.settings.quorum = match self.quorum {
            Some(quorum) => Quorum::new(quorum, nodes)?,
            None => Quorum::majority(nodes),
        };
        self.settings.owner = owner(self.owner)?;
        self.settings.check()?;
        self.settings.guard = self.settings.sent_guard()?;
        let nodes = Nodes::new(self.members, self.settings);
        Ok((Engine::new(nodes), self.nodes))
    }

    fn check_nodes(&self) -> Result<(), BuildError> {
        let nodes = self.nodes.len();
        let max = NodeSet::MAX_NODES;
        if nodes == 0 {
            return Err(BuildError::NoNodes);
        }
        if nodes > max {
            return Err(BuildError::TooManyNodes { nodes, max });
        }
        let mut labels = HashSet::new();
        match self.nodes.iter().find(|node| !labels.insert(node.label())) {
            Some(twice) => Err(BuildError::DuplicateNode {
                label: twice.label().to_owned(),
            }),
            None => Ok(()),
        }
    }
}

fn owner(given: Option<String>) -> Result<Option<Note>, BuildError> {
    match given {
        None => Ok(Note::of_this_process()),
        Some(owner) if owner.is_empty() => Ok(None),
        Some(owner) => match Note::new(&*owner) {
            Some(note) => Ok(Some(note)),
            None => Err(BuildError::Owner {
                len: owner.len(),
                max: Note::MAX,
                owner,
            }),
        },
    }
}
