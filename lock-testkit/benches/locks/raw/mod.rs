//! The limit: what a lock on a quorum cannot do without, written by hand.
//!
//! `SET key token NX PX ttl` to all nodes in parallel until a quorum has answered OK, then a
//! compare-and-delete by script the same way, on the same client with the settings that our node
//! uses. Answers that are not waited for are driven in the background. There is no timeout, no
//! clean-up, no random token and no error handling beyond the benchmark's own needs.

mod fred;
mod redis_rs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lock_testkit::RedisServer;

use crate::BenchResult;
use crate::side::Side;

pub(crate) use fred::Fred;
pub(crate) use redis_rs::RedisRs;

pub(crate) const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return \
                                  redis.call('DEL', KEYS[1]) else return 0 end";

/// The default ttl of our side.
pub(crate) const TTL_MILLIS: &str = "30000";

/// A client with one connection.
pub(crate) trait Connection: Clone + Send + Sync + 'static {
    /// A command in the client's form.
    type Command: Send + Sync + 'static;

    async fn connect(url: &str) -> BenchResult<Self>;

    fn command(words: &[&str]) -> Self::Command;

    /// Sends a command, and says whether it was answered with OK or with 1.
    fn ask(&self, command: &Self::Command) -> impl Future<Output = BenchResult<bool>> + Send;
}

#[derive(Clone)]
pub(crate) struct Raw<C> {
    nodes: Arc<[C]>,
    digest: Arc<str>,
}

impl<C: Connection> Raw<C> {
    pub(crate) async fn new(servers: &[RedisServer]) -> BenchResult<Self> {
        let mut nodes = Vec::new();
        let mut digest = String::new();
        for server in servers {
            nodes.push(C::connect(&server.url()).await?);
            let loaded = server.command(&["SCRIPT", "LOAD", COMPARE_AND_DELETE])?;
            let lock_core::Reply::Bytes(loaded) = loaded else {
                return Err("the raw side's script was not loaded".into());
            };
            digest = String::from_utf8(loaded)?;
        }
        Ok(Self {
            nodes: nodes.into(),
            digest: digest.into(),
        })
    }

    /// Sends the command to all nodes and waits until a quorum has agreed.
    async fn ask_all(&self, words: &[&str]) -> BenchResult<()> {
        let command = Arc::new(C::command(words));
        let ask = |node: &C| {
            let (node, command) = (node.clone(), Arc::clone(&command));
            async move { node.ask(&command).await }
        };
        let mut calls = self.nodes.iter().map(ask).collect::<FuturesUnordered<_>>();
        let quorum = self.nodes.len() / 2 + 1;
        let mut agreed = 0;
        while agreed < quorum {
            let Some(answer) = calls.next().await else {
                return Err("the raw side met a lock that somebody holds".into());
            };
            if answer? {
                agreed += 1;
            }
        }
        if !calls.is_empty() {
            tokio::spawn(async move { while calls.next().await.is_some() {} });
        }
        Ok(())
    }
}

impl<C: Connection> Side for Raw<C> {
    type Name = String;

    fn name(resource: &str) -> String {
        resource.to_owned()
    }

    async fn pair(&self, key: &String) -> BenchResult<()> {
        let token = token();
        self.ask_all(&["SET", key, &token, "NX", "PX", TTL_MILLIS])
            .await?;
        self.ask_all(&["EVALSHA", &self.digest, "1", key, &token])
            .await
    }
}

/// As long as a UUID, but cheaper.
pub(crate) fn token() -> String {
    static PAIRS: AtomicU64 = AtomicU64::new(0);
    format!("{:036}", PAIRS.fetch_add(1, Ordering::Relaxed))
}
