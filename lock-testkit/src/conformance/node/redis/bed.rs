//! A server behind a proxy, and the faults of both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{RedisNode, Reply, Runtime};

use super::RedisHarness;
use super::admin::{self, ask, run, unexpected};
use super::denial::{Denials, answer};
use super::servers::Servers;
use crate::conformance::node::harness::{Access, Denial, Entry, NodeBed, NodeFault, NodeHarness};
use crate::conformance::{CheckResult, Failure};
use crate::server::TlsFiles;
use crate::{FaultProxy, ProxyFault, RedisServer};

/// The commands that clients send by themselves, before, between and after those of a lock.
const OWN_COMMANDS: [&[u8]; 8] = [
    b"HELLO", b"AUTH", b"SELECT", b"CLIENT", b"PING", b"INFO", b"CLUSTER", b"ASKING",
];

/// A server, or all of a cluster, and the way to each.
#[derive(Debug)]
pub(super) struct RedisBed {
    proxies: Vec<FaultProxy>,
    servers: Servers,
    runtime: Arc<dyn Runtime>,
    harness: RedisHarness,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Of each server.
    denials: Vec<Denials>,
    /// Whether the servers ask for [`Access::PASSWORD`].
    asks: bool,
}

impl RedisBed {
    pub(super) fn start(harness: &RedisHarness) -> CheckResult<Self> {
        let mut builder = admin::builder();
        if let Some(TlsFiles {
            certificate,
            key,
            ca,
        }) = &harness.tls
        {
            builder = builder.tls(certificate, key, ca);
        }
        let (servers, proxies) = match harness.masters {
            None => {
                let server = builder.start()?;
                let proxy = FaultProxy::start(server.tls_addr().unwrap_or(server.addr()))?;
                (Servers::One(Box::new([server])), vec![proxy])
            }
            Some(masters) => Servers::cluster(&builder, masters)?,
        };
        let denials = proxies.iter().map(|_| Denials::default()).collect();
        Ok(Self {
            proxies,
            servers,
            runtime: harness.driver().runtime(),
            harness: harness.clone(),
            state: Mutex::new(State {
                denials,
                asks: false,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if connections are encrypted, since the proxy cannot read them then.
    fn look_into_connections(&self) -> CheckResult {
        match self.harness.tls {
            Some(_) => Err(Failure::unsupported("look into what is encrypted")),
            None => Ok(()),
        }
    }

    fn ask_for_password(&self) -> CheckResult {
        let words = ["CONFIG", "SET", "requirepass", Access::PASSWORD];
        for server in self.servers.all() {
            ask(server, &words)?;
        }
        Ok(())
    }

    /// Gives each way to a server this fault.
    fn on_the_way(&self, fault: &ProxyFault) {
        for proxy in &self.proxies {
            proxy.set_fault(fault.clone());
        }
    }

    /// Sets again what a restart has lost.
    fn restarted(&self) -> CheckResult {
        let mut state = self.state();
        state.denials.iter_mut().for_each(Denials::forget);
        if state.asks {
            self.ask_for_password()?;
        }
        self.servers.are_behind(&self.proxies)
    }

    fn deny(&self, denial: Denial) -> CheckResult {
        let mut state = self.state();
        let all = self.servers.all().iter().zip(&self.proxies);
        for ((server, proxy), denials) in all.zip(&mut state.denials) {
            match (&self.servers, denial) {
                // A server of a cluster does not take the command for that.
                (Servers::Cluster(_), Denial::ReadOnly) => answer(proxy, denial),
                _ => denials.start(denial, server, proxy)?,
            }
        }
        Ok(())
    }
}

#[async_trait]
impl NodeBed for RedisBed {
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>> {
        if access.password.is_some() && !std::mem::replace(&mut self.state().asks, true) {
            self.ask_for_password()?;
        }
        let target = self.harness.target(self.proxies[0].addr(), access.clone());
        self.harness.node(target).await
    }

    fn address(&self) -> Option<String> {
        Some(self.proxies[0].addr().to_string())
    }

    async fn pass(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    async fn inject(&self, fault: &NodeFault) -> CheckResult {
        if let NodeFault::LoseCommand
        | NodeFault::LoseReply
        | NodeFault::Deny(Denial::Loading | Denial::Moved) = fault
        {
            self.look_into_connections()?;
        }
        let servers = self.servers.all();
        match *fault {
            NodeFault::Refuse => self.on_the_way(&ProxyFault::Refuse),
            NodeFault::Hang => servers.iter().try_for_each(RedisServer::pause)?,
            NodeFault::BlackHole => self.on_the_way(&ProxyFault::BlackHole),
            NodeFault::HalfOpen => self.on_the_way(&ProxyFault::HalfOpen),
            NodeFault::Cut => self.proxies.iter().for_each(FaultProxy::cut),
            NodeFault::LoseCommand => self.on_the_way(&ProxyFault::CutAfterRequest),
            NodeFault::LoseReply => self.on_the_way(&ProxyFault::CutBeforeReply),
            NodeFault::HoldReplies => self.on_the_way(&ProxyFault::Hold),
            NodeFault::Delay(delay) => self.on_the_way(&ProxyFault::Delay(delay)),
            NodeFault::RestartEmpty => {
                self.servers.restart_empty()?;
                self.restarted()?;
            }
            NodeFault::RestartWithKeys => {
                for server in servers {
                    server.restart_with_data()?;
                }
                self.restarted()?;
            }
            NodeFault::Deny(denial) => self.deny(denial)?,
            NodeFault::CloseIdle => {
                for server in servers {
                    run(server, "CONFIG SET timeout 1")?;
                }
            }
        }
        Ok(())
    }

    async fn heal(&self) -> CheckResult {
        self.servers
            .all()
            .iter()
            .try_for_each(RedisServer::resume)?;
        self.proxies.iter().for_each(FaultProxy::heal);
        let mut state = self.state();
        let asks = state.asks;
        for (server, denials) in self.servers.all().iter().zip(&mut state.denials) {
            // First of all, since a busy server accepts no settings.
            denials.end(server, asks)?;
            run(server, "CONFIG SET timeout 0")?;
        }
        Ok(())
    }

    async fn look(&self, key: &[u8]) -> CheckResult<Entry> {
        // In one script, so that the key cannot expire between two looks.
        let script = "local kind = redis.call('TYPE', KEYS[1]).ok \
                      if kind == 'string' then \
                        return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} \
                      end return kind";
        let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", key];
        match ask(self.servers.of(key)?, &words)? {
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
        let server = self.servers.of(key)?;
        match entry {
            Entry::Missing => ask::<&[u8]>(server, &[b"DEL", key])?,
            Entry::Value { value, ttl: None } => ask::<&[u8]>(server, &[b"SET", key, value])?,
            Entry::Value {
                value,
                ttl: Some(ttl),
            } => {
                let millis = ttl.as_millis().to_string();
                ask::<&[u8]>(server, &[b"SET", key, value, b"PX", millis.as_bytes()])?
            }
            Entry::OtherType => {
                ask::<&[u8]>(server, &[b"DEL", key])?;
                ask::<&[u8]>(server, &[b"HSET", key, b"field", b"value"])?
            }
        };
        Ok(())
    }

    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        for server in self.servers.all() {
            let keys = match ask(server, &["KEYS", "*"])? {
                Reply::Array(keys) => keys,
                other => return Err(unexpected(&other)),
            };
            for key in keys {
                match key {
                    Reply::Bytes(key) => all.push(key),
                    other => return Err(unexpected(&other)),
                }
            }
        }
        Ok(all)
    }

    async fn flush_scripts(&self) -> CheckResult {
        let mut servers = self.servers.all().iter();
        servers.try_for_each(|server| run(server, "SCRIPT FLUSH"))
    }

    async fn connections(&self) -> CheckResult<usize> {
        Ok(self.proxies.iter().map(FaultProxy::open_connections).sum())
    }

    async fn opened(&self) -> CheckResult<usize> {
        Ok(self.proxies.iter().map(FaultProxy::accepted).sum())
    }

    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        self.look_into_connections()?;
        let count: u64 = self.proxies.iter().map(FaultProxy::request_count).sum();
        let mut requests: Vec<_> = self.proxies.iter().flat_map(FaultProxy::requests).collect();
        if count > requests.len() as u64 {
            return Err(Failure::unsupported(format!(
                "remember more than {} commands",
                requests.len()
            )));
        }
        let is_own = |name: &[u8]| {
            OWN_COMMANDS
                .iter()
                .any(|own| own.eq_ignore_ascii_case(name))
        };
        requests.retain(|words| words.first().is_some_and(|name| !is_own(name)));
        Ok(requests)
    }
}
