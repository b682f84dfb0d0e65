//! [`RedisRsNode`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use lock_core::node::Subscription;
use lock_core::{Command, NodeError, RedisNode, Reply};
use redis::aio::ConnectionLike;
use redis::{Client, ConnectionAddr};

use crate::InvalidUrl;
use crate::address::Address;
use crate::connector::Connector;
#[cfg(feature = "bb8")]
use crate::dial::Dial;
use crate::exchange;
use crate::lent::Lent;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// One Redis server, over the `redis` crate.
///
/// It holds one multiplexed connection, which it opens at the first call and replaces when it
/// breaks or hangs. Building it does no IO, so that a dead server never keeps a service from
/// starting. See the [crate docs](crate) for what the server has to allow.
pub struct RedisRsNode {
    label: String,
    way: Way,
}

enum Way {
    Own(Arc<Connector>),
    Lent(Lent),
}

impl RedisRsNode {
    /// A node at a URL: `redis://[user][:password@]host[:port][/db][?protocol=resp3]`, the same
    /// with `rediss` for [TLS](crate#tls), or `unix:///path[?db=1&user=u&pass=p]`.
    ///
    /// # Errors
    ///
    /// The text is no such URL, or it asks for TLS and no feature is on for that. Whether somebody
    /// answers there is seen at the first call.
    pub fn new(url: impl AsRef<str>) -> Result<Self, InvalidUrl> {
        let url = url.as_ref();
        match Address::parse(url) {
            Ok(address) => Ok(Self::at(address)),
            Err(error) => Err(InvalidUrl::new(url, error)),
        }
    }

    fn at(address: Address) -> Self {
        Self {
            label: label(address.client.get_connection_info().addr()),
            way: Way::Own(Arc::new(Connector::new(Arc::new(address), CONNECT_TIMEOUT))),
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

    /// A node whose connection comes from elsewhere.
    #[cfg(feature = "bb8")]
    pub(crate) fn dialing(label: String, dialer: Arc<dyn Dial>) -> Self {
        Self {
            label,
            way: Way::Own(Arc::new(Connector::new(dialer, CONNECT_TIMEOUT))),
        }
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
    ///   `MultiplexedConnection` and `ConnectionManager` keep to this, cluster connections do not.
    /// - A `response_timeout` of its own that is shorter than the lock's node timeout cuts calls
    ///   short. redis-rs sets one of 500 ms by default.
    /// - Calls that wait, for a `ConnectionManager` to connect or for a place among the calls in flight
    ///   (50, unless the connection was made with another `pipeline_buffer_size`), may leave in any
    ///   order, so that a release can overtake its acquire (rule N12). The key then stays until its
    ///   ttl.
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
            label: label.into(),
            way: Way::Lent(Lent::new(connection)),
        }
    }

    /// How long connecting may take, from the look-up of the host to the end of the handshake.
    /// Defaults to one second.
    ///
    /// Set it before the first call. It has no effect on a connection that was handed in.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        if let Way::Own(connector) = &mut self.way {
            *connector = Arc::new(Connector::new(connector.dialer(), timeout));
        }
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
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        if let Way::Own(connector) = &mut self.way
            && let Some(dialer) = connector.dialer().with_tls(tls)
        {
            *connector = Arc::new(Connector::new(dialer, connector.connect_timeout()));
        }
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
        match &self.way {
            Way::Own(connector) => exchange::execute(connector, command, within),
            Way::Lent(lent) => Box::pin(lent.execute(command, within)),
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for RedisRsNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: an address comes with credentials.
        f.debug_tuple("RedisRsNode").field(&self.label).finish()
    }
}

/// `host:port`, without the database: two databases are one server, which has one vote.
fn label(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            if host.contains(':') {
                format!("[{host}]:{port}").to_ascii_lowercase()
            } else {
                format!("{host}:{port}").to_ascii_lowercase()
            }
        }
        other => other.to_string(),
    }
}
