//! Nodes that talk to a real redis-server, under the suite.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::runtime::BoxFuture;
use lock_core::{RedisNode, Reply, Runtime};

use super::harness::{Access, Denial, Entry, NodeBed, NodeFault, NodeHarness, Protocol, not_built};
use crate::RedisServer;
use crate::conformance::{CheckResult, Driver, Failure};

/// Checks a backend against a real `redis-server` that it starts for each check.
///
/// All it needs is how a node is made for a server:
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
}

type Built = Result<Arc<dyn RedisNode>, Box<dyn Error + Send + Sync>>;
type Connect = dyn Fn(Target) -> BoxFuture<'static, Built> + Send + Sync;

impl RedisHarness {
    /// On this driver, with nodes that `connect` makes.
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

/// Where a node is to connect to, and how.
#[derive(Clone, Debug)]
pub struct Target {
    addr: SocketAddr,
    access: Access,
}

impl Target {
    /// The address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The protocol, if one is asked for.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.access.protocol
    }

    /// The password, as it is.
    #[must_use]
    pub fn password(&self) -> Option<&'static str> {
        self.access.password
    }

    /// All of it as a URL: `redis://:password@127.0.0.1:7000/?protocol=resp3`.
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
        format!("redis://{login}{}{protocol}", self.addr)
    }
}

#[async_trait]
impl NodeHarness for RedisHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    async fn start(&self) -> CheckResult<Box<dyn NodeBed>> {
        Ok(Box::new(RedisBed {
            server: RedisServer::start()?,
            runtime: self.driver.runtime(),
            harness: self.clone(),
        }))
    }

    async fn join(&self, address: &str) -> CheckResult<Arc<dyn RedisNode>> {
        let addr = address
            .parse()
            .map_err(|error| Failure::setup("read the address of a server", &error))?;
        let access = Access::default();
        self.node(Target { addr, access }).await
    }
}

/// A server, and the way to it.
#[derive(Debug)]
struct RedisBed {
    server: RedisServer,
    runtime: Arc<dyn Runtime>,
    harness: RedisHarness,
}

impl RedisBed {
    /// What the server answers to a command from outside.
    fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> CheckResult<Reply> {
        Ok(self.server.command(words)?)
    }
}

#[async_trait]
impl NodeBed for RedisBed {
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>> {
        let target = Target {
            addr: self.server.addr(),
            access: access.clone(),
        };
        self.harness.node(target).await
    }

    fn address(&self) -> Option<String> {
        Some(self.server.addr().to_string())
    }

    async fn pass(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    async fn inject(&self, fault: &NodeFault) -> CheckResult {
        match fault {
            NodeFault::Hang => self.server.pause()?,
            NodeFault::RestartEmpty => self.server.restart()?,
            NodeFault::RestartWithKeys => self.server.restart_with_data()?,
            NodeFault::Deny(Denial::NoPermInScript) => {
                self.ask(&["ACL", "SETUSER", "default", "-get"])?;
            }
            NodeFault::Deny(Denial::OutOfMemory) => {
                self.ask(&["CONFIG", "SET", "maxmemory", "1"])?;
            }
            _ => {
                return Err(Failure::unsupported(format!(
                    "do this to a server: {fault:?}"
                )));
            }
        }
        Ok(())
    }

    async fn heal(&self) -> CheckResult {
        self.server.resume()?;
        self.ask(&["ACL", "SETUSER", "default", "+@all"])?;
        self.ask(&["CONFIG", "SET", "maxmemory", "0"])?;
        Ok(())
    }

    async fn look(&self, key: &[u8]) -> CheckResult<Entry> {
        // In one script, so that the key cannot expire between two looks.
        let script = "local kind = redis.call('TYPE', KEYS[1]).ok \
                      if kind == 'string' then \
                        return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} \
                      end return kind";
        let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", key];
        match self.ask(&words)? {
            Reply::Array(found) => match &found[..] {
                [Reply::Bytes(value), Reply::Int(millis)] => Ok(Entry::Value {
                    value: value.clone(),
                    ttl: u64::try_from(*millis).ok().map(Duration::from_millis),
                }),
                _ => Err(unexpected(&Reply::Array(found))),
            },
            Reply::Bytes(kind) if kind == b"none" => Ok(Entry::Missing),
            Reply::Bytes(_) => Ok(Entry::OtherType),
            other => Err(unexpected(&other)),
        }
    }

    async fn put(&self, key: &[u8], entry: &Entry) -> CheckResult {
        match entry {
            Entry::Missing => self.ask(&[b"DEL", key])?,
            Entry::Value { value, ttl: None } => self.ask(&[b"SET", key, value])?,
            Entry::Value {
                value,
                ttl: Some(ttl),
            } => {
                let millis = ttl.as_millis().to_string();
                self.ask(&[b"SET", key, value, b"PX", millis.as_bytes()])?
            }
            Entry::OtherType => {
                self.ask(&[b"DEL", key])?;
                self.ask(&[b"HSET", key, b"field", b"value"])?
            }
        };
        Ok(())
    }

    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>> {
        let Reply::Array(keys) = self.ask(&["KEYS", "*"])? else {
            return Ok(Vec::new());
        };
        let bytes = |key| match key {
            Reply::Bytes(key) => Ok(key),
            other => Err(unexpected(&other)),
        };
        keys.into_iter().map(bytes).collect()
    }

    async fn flush_scripts(&self) -> CheckResult {
        self.ask(&["SCRIPT", "FLUSH"])?;
        Ok(())
    }

    async fn connections(&self) -> CheckResult<usize> {
        Err(Failure::unsupported("count connections"))
    }

    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        Err(Failure::unsupported("tell what the server was sent"))
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::new("a look into the server to work", format!("{reply:?}"))
}
