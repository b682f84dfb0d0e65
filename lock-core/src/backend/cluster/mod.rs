//! A whole Redis Cluster as one node of a lock.

mod batch;
mod follow;
mod member;
mod redirect;
mod refresh;
mod refreshes;
mod routes;
mod scan;
mod slots;
mod state;
mod turns;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::client::Client;
use super::keeper::Settings;
use super::led::LedClient;
use super::node::CONNECT_TIMEOUT;
use crate::node::{Command, NodeError, RedisNode, Reply, Subscription};
use crate::runtime::{BoxFuture, Runtime};
use state::State;

/// A [`Client`] that can be led to all servers of a cluster by a [`ClusterNode`].
pub trait ClusterClient: LedClient {
    /// Like [`Connection::send`](super::Connection::send), with an `ASKING` right before the command: nothing else
    /// may come in between, since it counts for one command alone. The answer is that to the command.
    fn send_asking(
        connection: &Self::Connection,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static;
}

/// A whole Redis Cluster as one [`RedisNode`], with one vote: a connection to each of its masters.
///
/// **One cluster is one node.** Its masters do not vote each by itself: each key has one master.
///
/// - **Where slots are** is asked of the servers by `CLUSTER SLOTS`: at the first call, at most eight of those listed are
///   asked, and again when a server refers to another one, does not answer, is out of service or lets us do nothing.
///   That is one task at a time, which asks three servers if there are so many, and again after a pause of 250 ms at least, up to 2 s while nothing
///   changes. Where the answers differ, more than half decide; without a majority what was known stands.
/// - **A redirect is followed**, up to five times, within the time of the call. A command that is refused by one has
///   not run (rule N5): it is sent again, with `ASKING` right before it where the server says `ASK`. It is **not**
///   sent again if a later command for its key has left meanwhile, unless it is a release or an inspection: the call
///   then ends with [`NotSent`](crate::node::NodeErrorKind::NotSent). So a release that went straight to the right
///   server is never followed by its acquire.
/// - **A batch of extensions** is sent in one command for each slot. If some are answered, those that are not are
///   told as [`Reply::Nil`]. It has three quarters of the time of its call, so that what the other masters say comes in
///   time though one of them hangs.
/// - **Several keys of several slots** in another command are refused by the server with `CROSSSLOT`; a lock then
///   takes them one after the other.
/// - **A listing** goes through one master after the other. While slots move, it may miss keys or have some twice.
///
/// Each server has a keeper of connections of its own, see [`ClientNode`](super::ClientNode): a connect, a pause or
/// a hang concerns the slots of that server alone. A server has to say by `CLUSTER MYID` that it is one of a cluster
/// before a command is sent to it. The connection to one that has lost its slots ends.
///
/// When the node is dropped, its connections close.
pub struct ClusterNode<C: ClusterClient> {
    state: Arc<State<C>>,
}

/// No [`ClusterNode`] can be made of this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot make a node of a cluster: {0}")]
pub struct InvalidCluster(String);

impl InvalidCluster {
    /// With what is wrong, free of secrets.
    pub fn new(fault: impl Into<String>) -> Self {
        Self(fault.into())
    }
}

impl<C: ClusterClient> ClusterNode<C> {
    /// A node of the cluster that these servers belong to: some of them are enough, as long as one answers. All
    /// servers that they name are connected to as the first one is, but for its address.
    ///
    /// # Errors
    ///
    /// There are no servers, or one is listed twice.
    pub fn new(servers: impl IntoIterator<Item = C>) -> Result<Self, InvalidCluster> {
        let servers: Vec<C> = servers.into_iter().collect();
        // The same in whatever order they are listed, so that one cluster is known as such.
        let mut labels: Vec<_> = servers.iter().map(Client::label).collect();
        labels.sort_unstable();
        if labels.is_empty() {
            let none = "the list of servers is empty, but it needs one or more of them";
            return Err(InvalidCluster::new(none));
        }
        if let Some(twice) = labels.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InvalidCluster::new(format!("{} is listed twice", twice[0])));
        }
        let label = format!("cluster@{}", labels.join(","));
        let settings = Settings {
            connect_timeout: CONNECT_TIMEOUT,
            runtime: None,
        };
        Ok(Self {
            state: Arc::new(State::new(label, servers.into(), settings)),
        })
    }

    /// How long connecting to one server may take, up to the end of the handshake, and how long the servers may take
    /// to say where slots are. Defaults to one second.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        let settings = Settings {
            connect_timeout: timeout,
            ..self.state.settings.clone()
        };
        self.with(Arc::clone(&self.state.servers), settings)
    }

    /// The runtime that all connections live on, see [`ClientNode::runtime`](super::ClientNode::runtime).
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn runtime(self, runtime: Arc<dyn Runtime>) -> Self {
        let settings = Settings {
            runtime: Some(runtime),
            ..self.state.settings.clone()
        };
        self.with(Arc::clone(&self.state.servers), settings)
    }

    /// The same node with each of its clients changed, but for their addresses.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn map_clients(self, change: impl Fn(&C) -> C) -> Self {
        let changed = self.state.servers.iter().map(change).collect();
        let settings = self.state.settings.clone();
        self.with(changed, settings)
    }

    fn with(&self, servers: Arc<[C]>, settings: Settings) -> Self {
        let label = self.state.label.clone();
        Self {
            state: Arc::new(State::new(label, servers, settings)),
        }
    }
}

#[async_trait]
impl<C: ClusterClient> RedisNode for ClusterNode<C> {
    // What `async_trait` makes of an `async fn`, without a future of its own around the other.
    fn execute<'n, 'c, 'f>(
        &'n self,
        command: &'c Command,
        within: Duration,
    ) -> BoxFuture<'f, Result<Reply, NodeError>>
    where
        'n: 'f,
        'c: 'f,
        Self: 'f,
    {
        Box::pin(self.state.execute(command, within))
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.state.label
    }
}

impl<C: ClusterClient> fmt::Debug for ClusterNode<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: a client knows credentials.
        f.debug_tuple("ClusterNode").field(&self.label()).finish()
    }
}
