//! Both sides as a program with a single server writes them, each with one client.

use std::sync::Arc;

use lock_core::{DistributedLockExt, Redlock, ReleaseError};
use lock_redis_rs::RedisRsNode;
use redis::Cmd;

use crate::BenchResult;
use crate::raw::{COMPARE_AND_DELETE, Connection, RedisRs, TTL_MILLIS, token};
use crate::side::Side;

/// `lock` and `release`.
#[derive(Clone)]
pub(crate) struct Ours {
    locks: Redlock<RedisRsNode>,
}

impl Ours {
    pub(crate) fn new(url: &str) -> BenchResult<Self> {
        let locks = Redlock::new([RedisRsNode::new(url)?])?;
        Ok(Self { locks })
    }
}

impl Side for Ours {
    type Name = String;

    fn name(resource: &str) -> String {
        format!("our {resource}")
    }

    async fn pair(&self, resource: &String) -> BenchResult<()> {
        let guard = self.locks.lock(resource.as_str()).await?;
        match guard.release().await {
            // See `crate::ours`.
            Ok(()) | Err(ReleaseError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Two commands, each awaited, and nothing else.
#[derive(Clone)]
pub(crate) struct Raw {
    connection: RedisRs,
    digest: Arc<str>,
}

impl Raw {
    pub(crate) async fn new(url: &str) -> BenchResult<Self> {
        let connection = RedisRs::connect(url).await?;
        let digest = connection.load(COMPARE_AND_DELETE).await?.into();
        Ok(Self { connection, digest })
    }

    async fn ask(&self, command: Cmd) -> BenchResult<()> {
        if self.connection.ask(&command).await? {
            Ok(())
        } else {
            Err("the raw side met a lock that somebody holds".into())
        }
    }
}

impl Side for Raw {
    type Name = String;

    fn name(resource: &str) -> String {
        format!("raw {resource}")
    }

    async fn pair(&self, key: &String) -> BenchResult<()> {
        let token = token();
        self.ask(RedisRs::command(&[
            "SET", key, &token, "NX", "PX", TTL_MILLIS,
        ]))
        .await?;
        self.ask(RedisRs::command(&[
            "EVALSHA",
            &self.digest,
            "1",
            key,
            &token,
        ]))
        .await
    }
}
