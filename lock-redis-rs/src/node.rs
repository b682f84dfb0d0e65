//! [`RedisRsNode`].

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use lock_core::backend::{
    AtConnect, ClientNode, ClusterNode, Credentials, InvalidCluster, InvalidSentinels,
};
use lock_core::node::Subscription;
use lock_core::{Command, NodeError, RedisNode, Reply};
use redis::Client;
use redis::aio::ConnectionLike;

use crate::InvalidUrl;
use crate::address::Address;
use crate::borrowed::Borrowed;
use crate::cluster;
#[cfg(feature = "bb8")]
use crate::pooled::Pooled;

/// Of what redis-rs reads.
const SCHEMES: [&str; 7] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+unix",
    "valkey+unix",
];

/// One Redis server, over the `redis` crate.
///
/// It holds one multiplexed connection, which it opens at the first call and replaces when it
/// breaks or hangs. Building it does no IO, so that a dead server never keeps a service from
/// starting. See the [crate docs](crate) for what the server has to allow.
pub struct RedisRsNode {
    source: Source,
}

/// Where its connection comes from.
enum Source {
    Address(ClientNode<Address>),
    Cluster(ClusterNode<Address>),
    #[cfg(feature = "bb8")]
    Pool(ClientNode<Pooled>),
    Borrowed(Borrowed),
}

impl RedisRsNode {
    /// A node at a URL: `redis://[user][:password@]host[:port][/db][?protocol=resp3]`, the same
    /// with `rediss` for [TLS](crate#tls), or `unix:///path[?db=1&user=u&pass=p]`. Blanks and line breaks
    /// around it are ignored.
    ///
    /// # Errors
    ///
    /// The text is no such URL, or it asks for TLS and no feature is on for that. Whether somebody
    /// answers there is seen at the first call.
    pub fn new(url: impl AsRef<str>) -> Result<Self, InvalidUrl> {
        let url = InvalidUrl::check(url.as_ref(), &SCHEMES)?;
        match Address::parse(url) {
            Ok(address) => Ok(Self::at(address)),
            Err(error) => Err(InvalidUrl::new(url, error)),
        }
    }

    fn at(address: Address) -> Self {
        Self {
            source: Source::Address(ClientNode::new(address)),
        }
    }

    /// A node at the address of a client, with its credentials and TCP settings.
    ///
    /// It is for what no URL can say. The client's connections are not used, nor its timeouts:
    /// calls have deadlines of their own. `TCP_NODELAY` is always on. Keepalive and `TCP_USER_TIMEOUT`
    /// are set to 15 s and 10 s unless the client says otherwise. A client with TLS brings its own,
    /// see the [crate docs](crate#tls).
    #[must_use]
    pub fn from_client(client: Client) -> Self {
        Self::at(Address::new(client, None))
    }

    /// A node over a connection that you have already: a `MultiplexedConnection`, a
    /// `ConnectionManager`, or a type of your own.
    ///
    /// `label` names the server in errors, as `host:port`. Two nodes of one lock must not share
    /// it, and it must hold no secret.
    ///
    /// You get less than with [`new`](Self::new), since the connection stays yours:
    ///
    /// - It is neither reconnected nor replaced when it hangs, except by itself.
    /// - It must not send a command twice, neither after a timeout nor after a reconnect:
    ///   an acquire whose reply was lost would find its own key and take it for somebody else's.
    ///   `MultiplexedConnection` and `ConnectionManager` keep to this, cluster connections do not: see
    ///   [`cluster`](Self::cluster).
    /// - A `response_timeout` of its own that is shorter than the lock's node timeout cuts calls
    ///   short. redis-rs sets one of 500 ms by default.
    /// - Calls that wait, for a `ConnectionManager` to connect or for a place among the calls in flight
    ///   (50, unless the connection was made with another `pipeline_buffer_size`), may leave in any
    ///   order, so that a release can overtake its acquire (rule N12). The key then stays until its
    ///   ttl.
    /// - redis-rs reads replies without a limit, and any negative length as nil.
    /// - Commands that share the connection with others wait for them. A blocking command
    ///   (`BLPOP`) on it stalls every lock.
    /// - With the feature `tokio` alone, a call outside of tokio is an error. With `smol` too,
    ///   redis-rs finds out for itself where its timeouts run, unless you have called
    ///   `prefer_tokio`: then a call outside of tokio panics if the connection has a
    ///   `response_timeout`.
    #[must_use]
    pub fn from_connection<C>(label: impl Into<String>, connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self {
            source: Source::Borrowed(Borrowed {
                label: label.into(),
                connection: Box::new(connection),
            }),
        }
    }

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
    /// [`Pool::dedicated_connection`](bb8::Pool::dedicated_connection), and keeps it as one of
    /// [`new`](Self::new): opened at the first call, inside the time that the call may take, and
    /// replaced when it breaks or hangs. That is better than a checkout:
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
    /// - Calls pass through the task of the connection, which keeps their order and has no more than 50
    ///   under way at a time, as many as redis-rs's queue has places. With many callers that takes a
    ///   quarter to a third of the rate that a node of [`new`](Self::new) has.
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
    ///   5 s. A call before that ends with an error of the kind
    ///   [`Connection`](lock_core::node::NodeErrorKind::Connection). If an ACL denies `PING`, that
    ///   does no harm.
    /// - A wrong password is the cause that an error names, but without the server's code.
    /// - redis-rs reads replies without a limit, and any negative length as nil.
    /// - The response timeout of a `MultiplexedConnection`, 500 ms by default, is lifted. A connection
    ///   of another type may have one that is shorter than the lock's node timeout: answers that come
    ///   later are lost then.
    /// - With a `pipeline_buffer_size` or a `concurrency_limit` below 50, calls that wait for a place
    ///   may leave in any order, so that a release can overtake its acquire. The key then stays
    ///   until its ttl.
    #[cfg(feature = "bb8")]
    #[must_use]
    pub fn from_pool<M>(label: impl Into<String>, pool: bb8::Pool<M>) -> Self
    where
        M: bb8::ManageConnection,
        M::Connection: ConnectionLike + Clone + Sync,
        M::Error: std::error::Error + Sync,
    {
        let pooled = Pooled::new(label.into(), pool);
        Self {
            source: Source::Pool(ClientNode::new(pooled)),
        }
    }

    /// Asks these sentinels where the server is, a master whose **name** stands in the URL of this node in the
    /// place of the host: `redis://user:password@mymaster`. What else the URL and this node say is for
    /// the master; each sentinel has the credentials and the TLS of its own URL and node, and its port (26379,
    /// usually) has to be named. The port of the master's URL means nothing.
    ///
    /// ```no_run
    /// use lock_redis_rs::RedisRsNode;
    ///
    /// # fn node() -> Result<RedisRsNode, Box<dyn std::error::Error>> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let sentinels = sentinels.map(RedisRsNode::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let node = RedisRsNode::new("redis://locks:secret@mymaster")?.sentinels(sentinels)?;
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
    /// The name of the master is none, there are no sentinels, one is listed twice, or a node is one of a
    /// connection of your own, of a pool's manager or of sentinels already.
    pub fn sentinels(
        self,
        sentinels: impl IntoIterator<Item = Self>,
    ) -> Result<Self, InvalidSentinels> {
        let address = |node: &Self| match &node.source {
            Source::Address(node) if node.client().sentinels.is_none() => Ok(node.client().clone()),
            _ => Err(InvalidSentinels::new(format!(
                "{} is not the address of one server, but has a connection, a pool or sentinels",
                node.label()
            ))),
        };
        let sentinels: Result<_, _> = sentinels.into_iter().map(|node| address(&node)).collect();
        let led = address(&self)?.led_by(sentinels?)?;
        Ok(self.with_address(|_| led.clone()))
    }

    /// A whole Redis Cluster as one node, with **one** vote, over a connection to each of its masters. `servers` are
    /// some of its servers, masters or replicas, so that one of them is there to name the others:
    ///
    /// ```no_run
    /// use lock_redis_rs::RedisRsNode;
    ///
    /// # fn node() -> Result<RedisRsNode, Box<dyn std::error::Error>> {
    /// let servers = ["redis://locks:secret@10.0.0.1:6379", "redis://locks:secret@10.0.0.2:6379"];
    /// let servers = servers.map(RedisRsNode::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let node = RedisRsNode::cluster(servers)?;
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// All servers that they name are reached with what the first one says of credentials, TLS and the protocol.
    /// [`connect_timeout`](Self::connect_timeout) and [`credentials_at_connect`](Self::credentials_at_connect) of
    /// the whole node apply to each of them. How commands find their server is said in
    /// [`lock_core::backend::ClusterNode`]; **a failover can forget locks**, see the [crate docs](crate#cluster).
    ///
    /// Building it does no IO. Set it before the first call.
    ///
    /// # Errors
    ///
    /// There are no servers, one is listed twice, or one is a unix socket, a connection of your own or of a pool's
    /// manager, a master of sentinels, or a cluster already.
    pub fn cluster(servers: impl IntoIterator<Item = Self>) -> Result<Self, InvalidCluster> {
        let address = |node: Self| match node.source {
            Source::Address(node) => Ok(node.client().clone()),
            _ => Err(InvalidCluster::new(format!(
                "{} is not the address of one of its servers, but has a connection, a pool or servers",
                node.label()
            ))),
        };
        let servers: Result<_, _> = servers.into_iter().map(address).collect();
        Ok(Self {
            source: Source::Cluster(cluster::node(servers?)?),
        })
    }

    /// How long connecting may take, from the look-up of the host to the end of the handshake.
    /// Defaults to one second.
    ///
    /// Set it before the first call. It has no effect on a connection that was handed in.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.source = match self.source {
            Source::Address(node) => Source::Address(node.connect_timeout(timeout)),
            Source::Cluster(node) => Source::Cluster(node.connect_timeout(timeout)),
            #[cfg(feature = "bb8")]
            Source::Pool(node) => Source::Pool(node.connect_timeout(timeout)),
            borrowed @ Source::Borrowed(_) => borrowed,
        };
        self
    }

    /// Connects by TLS, with these certificates: for a server whose certificate no root of the
    /// system has signed, or that wants to see one of its clients. Needs one of the features
    /// `rustls`, `rustls-ring` and `native-tls`.
    ///
    /// Set it before the first call. It makes TLS of a `redis://` URL too. It has no effect on a unix
    /// socket, nor on a connection of your own or of a pool's manager.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    #[must_use]
    pub fn tls(self, tls: crate::Tls) -> Self {
        self.with_address(|address| Address {
            tls: Some(tls.clone()),
            tls_at_connect: None,
            ..address.by_our_tls()
        })
    }

    /// Like [`tls`](Self::tls), with certificates that are asked for at each connect: for those that are
    /// renewed while the service runs.
    ///
    /// ```no_run
    /// use lock_redis_rs::{RedisRsNode, Tls};
    ///
    /// # fn node() -> Result<RedisRsNode, Box<dyn std::error::Error>> {
    /// let node = RedisRsNode::new("rediss://redis-1.internal:6379")?.tls_at_connect(|| async {
    ///     let (chain, key) = (std::fs::read("client.crt")?, std::fs::read("client.key")?);
    ///     let roots = std::fs::read("ca.crt")?;
    ///     let tls = Tls::new().root_certificates(&roots)?.client_certificate(&chain, &key)?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(tls)
    /// });
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// The time that it takes is part of the [`connect_timeout`](Self::connect_timeout). If it fails, the
    /// call is told so by a [`NotSent`](lock_core::node::NodeErrorKind::NotSent) with the cause.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    #[must_use]
    pub fn tls_at_connect<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<crate::Tls, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = AtConnect::new(ask);
        self.with_address(|address| Address {
            tls_at_connect: Some(ask.clone()),
            ..address.by_our_tls()
        })
    }

    /// Logs in with credentials that are asked for at each connect, in place of those of the URL or of the
    /// client: for passwords that change while the service runs, such as tokens of a cloud.
    ///
    /// ```no_run
    /// use lock_redis_rs::{Credentials, RedisRsNode};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # fn node() -> Result<RedisRsNode, lock_redis_rs::InvalidUrl> {
    /// let node = RedisRsNode::new("redis://redis-1.internal:6379")?
    ///     .credentials_at_connect(|| async { Ok::<_, std::io::Error>(Credentials::new("locks", token().await?)) });
    /// # Ok(node)
    /// # }
    /// ```
    ///
    /// The time that it takes is part of the [`connect_timeout`](Self::connect_timeout). If it fails, or the
    /// server refuses the credentials, the call is told so by a
    /// [`NotSent`](lock_core::node::NodeErrorKind::NotSent) with the cause; a lock that waits goes on
    /// waiting, since the next ones may be right. An open connection is not logged in again: Redis keeps it
    /// until its user is deleted or its clients are killed.
    ///
    /// Set it before the first call. It has no effect on a connection of your own or of a pool's manager.
    #[must_use]
    pub fn credentials_at_connect<F, A, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = AtConnect::new(ask);
        self.with_address(|address| Address {
            credentials_at_connect: Some(ask.clone()),
            ..address.clone()
        })
    }

    fn with_address(mut self, change: impl Fn(&Address) -> Address) -> Self {
        self.source = match self.source {
            Source::Address(node) => {
                let changed = change(node.client());
                Source::Address(node.with_client(changed))
            }
            Source::Cluster(node) => Source::Cluster(node.map_clients(change)),
            other => other,
        };
        self
    }
}

#[async_trait]
impl RedisNode for RedisRsNode {
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
        match &self.source {
            Source::Address(node) => node.execute(command, within),
            Source::Cluster(node) => node.execute(command, within),
            #[cfg(feature = "bb8")]
            Source::Pool(node) => node.execute(command, within),
            Source::Borrowed(borrowed) => Box::pin(borrowed.execute(command, within)),
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        match &self.source {
            Source::Address(node) => node.label(),
            Source::Cluster(node) => node.label(),
            #[cfg(feature = "bb8")]
            Source::Pool(node) => node.label(),
            Source::Borrowed(borrowed) => &borrowed.label,
        }
    }
}

impl fmt::Debug for RedisRsNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: an address comes with credentials.
        f.debug_tuple("RedisRsNode").field(&self.label()).finish()
    }
}
