//! The suite on real servers.

mod admin;
mod bed;
mod denial;
mod servers;

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::RedisNode;
use lock_core::runtime::BoxFuture;

use self::bed::RedisBed;
use super::harness::{Access, NodeBed, NodeHarness, Protocol, not_built};
use crate::conformance::{CheckResult, Driver, Failure};
use crate::server::TlsFiles;

/// Checks a backend against a real `redis-server`, which it starts for each check, with a
/// [`FaultProxy`](crate::FaultProxy) in front of it.
///
/// All it needs is a function that makes a node for a server:
///
/// ```ignore
/// RedisHarness::new(TokioDriver::multi_thread(), |target| async move {
///     MyNode::new(target.url())
/// })
/// ```
#[derive(Clone)]
pub struct RedisHarness {
    driver: Arc<dyn Driver>,
    connect: Arc<Connect>,
    tls: Option<TlsFiles>,
    /// How many masters a cluster has; `None` is a single server.
    masters: Option<usize>,
}

type Built = Result<Arc<dyn RedisNode>, Box<dyn Error + Send + Sync>>;
type Connect = dyn Fn(Target) -> BoxFuture<'static, Built> + Send + Sync;

impl RedisHarness {
    /// Makes a harness on this driver, with nodes that `connect` makes.
    pub fn new<C, F, N, E>(driver: impl Driver, connect: C) -> Self
    where
        C: Fn(Target) -> F + Send + Sync + 'static,
        F: Future<Output = Result<N, E>> + Send + 'static,
        N: RedisNode,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let connect = move |target| -> BoxFuture<'static, Built> {
            let built = connect(target);
            Box::pin(async move {
                match built.await {
                    Ok(node) => Ok(Arc::new(node) as Arc<dyn RedisNode>),
                    Err(error) => Err(error.into()),
                }
            })
        };
        Self {
            driver: Arc::new(driver),
            connect: Arc::new(connect),
            tls: None,
            masters: None,
        }
    }

    /// Connects over TLS, with files in PEM: see [`RedisServerBuilder::tls`].
    ///
    /// The proxy cannot read what is encrypted. So the checks that count commands, or that cut a
    /// connection at a certain one, cannot be carried out, and fail with `FailureKind::Unsupported`: run
    /// `NODE_CHECKS` yourself, since `conformance!` would fail.
    ///
    /// [`RedisServerBuilder::tls`]: crate::RedisServerBuilder::tls
    #[must_use]
    pub fn over_tls(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        ca: impl Into<PathBuf>,
    ) -> Self {
        self.tls = Some(TlsFiles {
            certificate: certificate.into(),
            key: key.into(),
            ca: ca.into(),
        });
        self
    }

    /// Starts a whole cluster of so many masters for each check, with a proxy in front of each, to which the cluster
    /// refers. The target is one of them. A fault is one of all of them at the same time; one that concerns a single
    /// command is once at each.
    ///
    /// The servers have to know `cluster-announce-port` at run time (Redis 7.0 or newer). TLS is left out.
    #[must_use]
    pub fn over_cluster(mut self, masters: usize) -> Self {
        self.masters = Some(masters.max(1));
        self
    }

    fn target(&self, addr: SocketAddr, access: Access) -> Target {
        Target {
            addr,
            access,
            is_tls: self.tls.is_some(),
        }
    }

    async fn node(&self, target: Target) -> CheckResult<Arc<dyn RedisNode>> {
        let built = (self.connect)(target).await;
        built.map_err(|error| not_built(&*error))
    }
}

impl fmt::Debug for RedisHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisHarness")
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

/// The server to which a node connects, and how.
#[derive(Clone, Debug)]
pub struct Target {
    addr: SocketAddr,
    access: Access,
    is_tls: bool,
}

impl Target {
    /// The server's address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The protocol that is asked for; `None` leaves it to the client. A client that does not speak it
    /// has to fail to be built.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.access.protocol
    }

    /// Returns the same target with this protocol, unless one is asked for.
    #[must_use]
    pub fn or_protocol(mut self, protocol: Protocol) -> Self {
        self.access.protocol.get_or_insert(protocol);
        self
    }

    /// The password, not escaped.
    #[must_use]
    pub fn password(&self) -> Option<&'static str> {
        self.access.password
    }

    /// The whole target as a URL: `redis://:password@127.0.0.1:7000/?protocol=resp3`.
    #[must_use]
    pub fn url(&self) -> String {
        let login = match self.access.password {
            Some(password) => format!(":{}@", crate::server::percent_encoded(password)),
            None => String::new(),
        };
        let protocol = match self.access.protocol {
            Some(Protocol::Resp2) => "/?protocol=resp2",
            Some(Protocol::Resp3) => "/?protocol=resp3",
            None => "",
        };
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        format!("{scheme}://{login}{}{protocol}", self.addr)
    }
}

#[async_trait]
impl NodeHarness for RedisHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    async fn start(&self) -> CheckResult<Box<dyn NodeBed>> {
        Ok(Box::new(RedisBed::start(self)?))
    }

    async fn join(&self, address: &str) -> CheckResult<Arc<dyn RedisNode>> {
        let addr = address
            .parse()
            .map_err(|error| Failure::setup("read the address of a server", &error))?;
        self.node(self.target(addr, Access::default())).await
    }
}
