//! [`FredNode`].

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use fred::clients::{Client, Pool};
use fred::types::config::Config;
use futures::future::BoxFuture;
use lock_core::backend::{
    AtConnect, ClientNode, ClusterNode, Credentials, InvalidCluster, InvalidSentinels, InvalidUrl,
};
use lock_core::node::Subscription;
use lock_core::{Command, NodeError, RedisNode, Reply};

use crate::client::FredClient;
use crate::cluster;
use crate::settings::{InvalidConfig, Settings};
use crate::url;

/// One Redis server, over the `fred` crate.
///
/// It holds one connection, which it opens at the first call and replaces when it breaks or hangs.
/// Building it connects to nothing, so that a dead server never keeps a service from starting. See the
/// [crate docs](crate) for what the server has to allow.
pub struct FredNode {
    nodes: Nodes,
}

enum Nodes {
    /// One for each connection to a server: one, or as many as a pool had clients.
    Server(Box<[ClientNode<FredClient>]>),
    Cluster(ClusterNode<FredClient>),
}

impl FredNode {
    /// A node at a URL: `redis://[user][:password@]host[:port][/db][?protocol=resp3]`, `rediss://`
    /// for TLS, or `redis+unix:///path`; both of these need a [feature](crate#features). Blanks and line
    /// breaks around it are ignored.
    ///
    /// # Errors
    ///
    /// The text is no such URL, one of a cluster or of sentinels, or one that needs a feature that is
    /// off. Whether somebody answers there is seen at the first call.
    pub fn new(url: impl AsRef<str>) -> Result<Self, InvalidUrl> {
        Ok(Self::with_settings(url::parse(url.as_ref())?, 1))
    }

    /// A node at the address of a configuration: for what no URL can say, such as TLS with
    /// certificates of your own or a provider of credentials.
    ///
    /// # Errors
    ///
    /// The configuration is not that of a single server.
    pub fn from_config(config: Config) -> Result<Self, InvalidConfig> {
        Ok(Self::with_settings(Settings::of_config(config)?, 1))
    }

    /// A node at the address of a client that you have already, with its credentials, TLS and TCP
    /// settings.
    ///
    /// The client's connection is not used: the node opens one of its own, with settings that keep
    /// the rules of [`RedisNode`], see the [crate docs](crate#settings-of-fred). So it does not
    /// matter whether the client is connected, how it reconnects, what else is sent over it, or
    /// when it ends. Of a resolver that was set with `set_resolver` the node does not know.
    ///
    /// # Errors
    ///
    /// The client is not one of a single server.
    pub fn from_client(client: &Client) -> Result<Self, InvalidConfig> {
        Ok(Self::with_settings(Settings::of_client(client)?, 1))
    }

    /// A node like [`from_client`](Self::from_client), with as many connections as the pool has.
    ///
    /// The key of a lock decides about the connection, so that commands for one key never overtake
    /// each other.
    ///
    /// # Errors
    ///
    /// The pool is not one of a single server.
    pub fn from_pool(pool: &Pool) -> Result<Self, InvalidConfig> {
        let settings = Settings::of_client(pool.next())?;
        Ok(Self::with_settings(settings, pool.clients().len()))
    }

    /// Asks these sentinels where the server is, a master whose **name** stands in the URL of this node in the
    /// place of the host: `redis://user:password@mymaster`. What else the URL and this node say is for
    /// the master; each sentinel has the credentials and the TLS of its own URL and node, and its port (26379,
    /// usually) has to be named. The port of the master's URL means nothing.
    ///
    /// ```no_run
    /// use lock_fred::FredNode;
    ///
    /// # fn node() -> Result<FredNode, Box<dyn std::error::Error>> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let sentinels = sentinels.map(FredNode::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let node = FredNode::new("redis://locks:secret@mymaster")?.sentinels(sentinels)?;
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// List all sentinels: the master is where more than half of those that are listed say. **A failover can
    /// forget locks**, see the [crate docs](crate#sentinels).
    ///
    /// Building it does no IO. Set it before the first call.
    ///
    /// # Errors
    ///
    /// The name of the master is none, there are no sentinels, one is listed twice, or a node has a unix
    /// socket for its master's address, or sentinels already.
    pub fn sentinels(
        self,
        sentinels: impl IntoIterator<Item = Self>,
    ) -> Result<Self, InvalidSentinels> {
        let one = |node: &Self| match &node.nodes {
            Nodes::Server(nodes) => Ok(nodes[0].client().clone()),
            Nodes::Cluster(cluster) => Err(InvalidSentinels::new(format!(
                "{} is not the address of one server",
                cluster.label()
            ))),
        };
        let sentinels: Result<_, _> = sentinels.into_iter().map(|node| one(&node)).collect();
        let led = one(&self)?.led_by(sentinels?)?;
        Ok(self.map(|_| led.clone()))
    }

    /// A whole Redis Cluster as one node, with **one** vote, over a connection to each of its masters. `servers` are
    /// some of its servers, masters or replicas, so that one of them is there to name the others:
    ///
    /// ```no_run
    /// use lock_fred::FredNode;
    ///
    /// # fn node() -> Result<FredNode, Box<dyn std::error::Error>> {
    /// let servers = ["redis://locks:secret@10.0.0.1:6379", "redis://locks:secret@10.0.0.2:6379"];
    /// let servers = servers.map(FredNode::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let node = FredNode::cluster(servers)?;
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// All servers that they name are reached with what the first one says of credentials, TLS and the protocol, by
    /// one connection each. [`connect_timeout`](Self::connect_timeout) and
    /// [`credentials_at_connect`](Self::credentials_at_connect) of the whole node apply to each of them. How
    /// commands find their server is said in [`lock_core::backend::ClusterNode`]; **a failover can forget locks**,
    /// see the [crate docs](crate#cluster).
    ///
    /// Building it does no IO. Set it before the first call.
    ///
    /// # Errors
    ///
    /// There are no servers, one is listed twice, or one is a unix socket, a pool, a master of sentinels, or a
    /// cluster already.
    pub fn cluster(servers: impl IntoIterator<Item = Self>) -> Result<Self, InvalidCluster> {
        let server = |node: Self| match &node.nodes {
            Nodes::Server(nodes) if nodes.len() == 1 => Ok(nodes[0].client().clone()),
            _ => Err(InvalidCluster::new(format!(
                "{} is not the address of one of its servers, but is a pool or a cluster",
                node.label()
            ))),
        };
        let servers: Result<_, _> = servers.into_iter().map(server).collect();
        Ok(Self {
            nodes: Nodes::Cluster(cluster::node(servers?)?),
        })
    }

    /// How long connecting may take, from the look-up of the host to the end of the handshake.
    /// Defaults to one second.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        let nodes = match self.nodes {
            Nodes::Server(nodes) => Nodes::Server(
                nodes
                    .into_iter()
                    .map(|node| node.connect_timeout(timeout))
                    .collect(),
            ),
            Nodes::Cluster(cluster) => Nodes::Cluster(cluster.connect_timeout(timeout)),
        };
        Self { nodes }
    }

    /// Logs in with credentials that are asked for at each connect, in place of those of the URL or of the
    /// configuration: for passwords that change while the service runs, such as tokens of a cloud.
    ///
    /// ```no_run
    /// use lock_fred::{Credentials, FredNode};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # fn node() -> Result<FredNode, lock_fred::InvalidUrl> {
    /// let node = FredNode::new("redis://redis-1.internal:6379")?
    ///     .credentials_at_connect(|| async { Ok::<_, std::io::Error>(Credentials::new("locks", token().await?)) });
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// The time that it takes is part of the [`connect_timeout`](Self::connect_timeout). If it fails, or the
    /// server refuses the credentials, the call is told so by a
    /// [`NotSent`](lock_core::node::NodeErrorKind::NotSent) with the cause; a lock that waits goes on
    /// waiting, since the next ones may be right. An open connection is not logged in again: Redis keeps it
    /// until its user is deleted or its clients are killed. A `credential_provider` of a configuration, which a
    /// feature of fred brings, goes before this: use one of them.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn credentials_at_connect<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = AtConnect::new(ask);
        self.map(|client| client.with_credentials(ask.clone()))
    }

    /// Connects by TLS with a connector that is asked for at each connect: for certificates that are
    /// renewed while the service runs. It makes TLS of a `redis://` URL too, and has no effect on a unix
    /// socket.
    ///
    /// The time that it takes is part of the [`connect_timeout`](Self::connect_timeout). If it fails, the
    /// call is told so by a [`NotSent`](lock_core::node::NodeErrorKind::NotSent) with the cause.
    ///
    /// Set it before the first call.
    #[cfg(any(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        feature = "enable-native-tls"
    ))]
    #[must_use]
    pub fn tls_at_connect<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<fred::types::config::TlsConnector, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = AtConnect::new(ask);
        self.map(|client| client.with_tls(ask.clone()))
    }

    fn map(self, change: impl Fn(&FredClient) -> FredClient) -> Self {
        let changed = |node: ClientNode<FredClient>| {
            let client = change(node.client());
            node.with_client(client)
        };
        let nodes = match self.nodes {
            Nodes::Server(nodes) => Nodes::Server(nodes.into_iter().map(changed).collect()),
            Nodes::Cluster(cluster) => Nodes::Cluster(cluster.map_clients(change)),
        };
        Self { nodes }
    }

    fn with_settings(settings: Settings, connections: usize) -> Self {
        let client = FredClient::new(settings);
        let node = |_| ClientNode::new(client.clone());
        Self {
            nodes: Nodes::Server((0..connections.max(1)).map(node).collect()),
        }
    }
}

/// The node whose connection takes the commands for this key.
fn node_of<'n>(nodes: &'n [ClientNode<FredClient>], key: &[u8]) -> &'n ClientNode<FredClient> {
    match nodes {
        [only] => only,
        many => {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            &many[(hasher.finish() % many.len() as u64) as usize]
        }
    }
}

#[async_trait]
impl RedisNode for FredNode {
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
        match &self.nodes {
            Nodes::Server(nodes) => {
                node_of(nodes, command.operation().key()).execute(command, within)
            }
            Nodes::Cluster(cluster) => cluster.execute(command, within),
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        match &self.nodes {
            Nodes::Server(nodes) => nodes[0].label(),
            Nodes::Cluster(cluster) => cluster.label(),
        }
    }
}

impl fmt::Debug for FredNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: an address comes with credentials.
        f.debug_tuple("FredNode").field(&self.label()).finish()
    }
}
