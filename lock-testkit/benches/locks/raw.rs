//! The limit: what a lock on a quorum cannot do without, written by hand.
//!
//! `SET key token NX PX ttl` to all nodes in parallel until a quorum has answered OK, then a
//! compare-and-delete by script the same way, on the same client with the settings that
//! `RedisRsNode` uses. Answers that are not waited for are driven in the background. There is no
//! timeout, no clean-up, no random token and no error handling beyond the benchmark's own needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lock_testkit::RedisServer;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Value};

use crate::BenchResult;
use crate::side::Side;

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return \
                                  redis.call('DEL', KEYS[1]) else return 0 end";

/// The default ttl of our side.
const TTL_MILLIS: u64 = 30_000;

/// Long enough that no call waits for a place in the client's queue, as in `RedisRsNode`.
const QUEUE: usize = 16 * 1024;

#[derive(Clone)]
pub(crate) struct Raw {
    nodes: Arc<[MultiplexedConnection]>,
    digest: Arc<str>,
}

impl Raw {
    pub(crate) async fn new(servers: &[RedisServer]) -> BenchResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let mut nodes = Vec::new();
        let mut digest = String::new();
        for server in servers {
            let client = Client::open(server.url())?;
            let mut node = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(COMPARE_AND_DELETE);
            digest = load.query_async(&mut node).await?;
            nodes.push(node);
        }
        Ok(Self {
            nodes: nodes.into(),
            digest: digest.into(),
        })
    }

    /// Sends the command to all nodes and waits until a quorum has given this answer.
    async fn ask_all(&self, command: Cmd, expected: Value) -> BenchResult<()> {
        let command = Arc::new(command);
        let ask = |node: &MultiplexedConnection| {
            let (mut node, command) = (node.clone(), Arc::clone(&command));
            async move { node.req_packed_command(&command).await }
        };
        let mut calls = self.nodes.iter().map(ask).collect::<FuturesUnordered<_>>();
        let quorum = self.nodes.len() / 2 + 1;
        let mut agreed = 0;
        while agreed < quorum {
            let Some(answer) = calls.next().await else {
                return Err("the raw side met a lock that somebody holds".into());
            };
            if answer? == expected {
                agreed += 1;
            }
        }
        if !calls.is_empty() {
            tokio::spawn(async move { while calls.next().await.is_some() {} });
        }
        Ok(())
    }
}

impl Side for Raw {
    type Name = String;

    fn name(resource: &str) -> String {
        resource.to_owned()
    }

    async fn pair(&self, key: &String) -> BenchResult<()> {
        static PAIRS: AtomicU64 = AtomicU64::new(0);
        // As long as a UUID, but cheaper.
        let token = format!("{:036}", PAIRS.fetch_add(1, Ordering::Relaxed));
        let mut acquire = redis::cmd("SET");
        acquire.arg(key).arg(&token).arg("NX").arg("PX");
        acquire.arg(TTL_MILLIS);
        self.ask_all(acquire, Value::Okay).await?;
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.digest).arg(1).arg(key).arg(&token);
        self.ask_all(release, Value::Int(1)).await
    }
}
