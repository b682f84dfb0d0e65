//! A server behind a proxy, and the faults of both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{RedisNode, Reply, Runtime};

use super::RedisHarness;
use super::admin::{self, ask, run, unexpected};
use super::denial::Denials;
use crate::conformance::node::harness::{Access, Denial, Entry, NodeBed, NodeFault, NodeHarness};
use crate::conformance::{CheckResult, Failure};
use crate::server::TlsFiles;
use crate::{FaultProxy, ProxyFault, RedisServer};

/// The commands that clients send by themselves, before, between and after those of a lock.
const OWN_COMMANDS: [&[u8]; 6] = [b"HELLO", b"AUTH", b"SELECT", b"CLIENT", b"PING", b"INFO"];

/// A server, and the way to it.
#[derive(Debug)]
pub(super) struct RedisBed {
    proxy: FaultProxy,
    server: RedisServer,
    runtime: Arc<dyn Runtime>,
    harness: RedisHarness,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    denials: Denials,
    /// Whether the server asks for [`Access::PASSWORD`].
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
        let server = builder.start()?;
        Ok(Self {
            proxy: FaultProxy::start(server.tls_addr().unwrap_or(server.addr()))?,
            server,
            runtime: harness.driver().runtime(),
            harness: harness.clone(),
            state: Mutex::default(),
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
        ask(&self.server, &words)?;
        Ok(())
    }

    /// Sets again what a restart has lost.
    fn restarted(&self) -> CheckResult {
        let mut state = self.state();
        state.denials.forget();
        if state.asks {
            self.ask_for_password()?;
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
        let target = self.harness.target(self.proxy.addr(), access.clone());
        self.harness.node(target).await
    }

    fn address(&self) -> Option<String> {
        Some(self.proxy.addr().to_string())
    }

    async fn pass(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    async fn inject(&self, fault: &NodeFault) -> CheckResult {
        let proxy = &self.proxy;
        if let NodeFault::LoseCommand
        | NodeFault::LoseReply
        | NodeFault::Deny(Denial::Loading | Denial::Moved) = fault
        {
            self.look_into_connections()?;
        }
        match *fault {
            NodeFault::Refuse => proxy.set_fault(ProxyFault::Refuse),
            NodeFault::Hang => self.server.pause()?,
            NodeFault::BlackHole => proxy.set_fault(ProxyFault::BlackHole),
            NodeFault::HalfOpen => proxy.set_fault(ProxyFault::HalfOpen),
            NodeFault::Cut => proxy.cut(),
            NodeFault::LoseCommand => proxy.set_fault(ProxyFault::CutAfterRequest),
            NodeFault::LoseReply => proxy.set_fault(ProxyFault::CutBeforeReply),
            NodeFault::HoldReplies => proxy.set_fault(ProxyFault::Hold),
            NodeFault::Delay(delay) => proxy.set_fault(ProxyFault::Delay(delay)),
            NodeFault::RestartEmpty => {
                self.server.restart()?;
                self.restarted()?;
            }
            NodeFault::RestartWithKeys => {
                self.server.restart_with_data()?;
                self.restarted()?;
            }
            NodeFault::Deny(denial) => self.state().denials.start(denial, &self.server, proxy)?,
            NodeFault::CloseIdle => run(&self.server, "CONFIG SET timeout 1")?,
        }
        Ok(())
    }

    async fn heal(&self) -> CheckResult {
        self.server.resume()?;
        self.proxy.heal();
        let mut state = self.state();
        let asks = state.asks;
        // First of all, since a busy server accepts no settings.
        state.denials.end(&self.server, asks)?;
        run(&self.server, "CONFIG SET timeout 0")
    }

    async fn look(&self, key: &[u8]) -> CheckResult<Entry> {
        // In one script, so that the key cannot expire between two looks.
        let script = "local kind = redis.call('TYPE', KEYS[1]).ok \
                      if kind == 'string' then \
                        return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} \
                      end return kind";
        let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", key];
        match ask(&self.server, &words)? {
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
        let server = &self.server;
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
        let keys = match ask(&self.server, &["KEYS", "*"])? {
            Reply::Array(keys) => keys,
            other => return Err(unexpected(&other)),
        };
        let bytes = |key| match key {
            Reply::Bytes(key) => Ok(key),
            other => Err(unexpected(&other)),
        };
        keys.into_iter().map(bytes).collect()
    }

    async fn flush_scripts(&self) -> CheckResult {
        run(&self.server, "SCRIPT FLUSH")
    }

    async fn connections(&self) -> CheckResult<usize> {
        Ok(self.proxy.open_connections())
    }

    async fn opened(&self) -> CheckResult<usize> {
        Ok(self.proxy.accepted())
    }

    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        self.look_into_connections()?;
        let count = self.proxy.request_count();
        let mut requests = self.proxy.requests();
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
