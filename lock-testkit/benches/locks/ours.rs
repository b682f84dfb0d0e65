//! Our side: a `Redlock` with its defaults over `RedisRsNode`.

use lock_core::{DistributedLock, LockRequest, Redlock};
use lock_redis_rs::RedisRsNode;
use lock_testkit::RedisServer;

use crate::BenchResult;
use crate::side::Side;

#[derive(Clone)]
pub(crate) struct Ours {
    lock: Redlock<RedisRsNode>,
}

impl Ours {
    pub(crate) fn new(servers: &[RedisServer]) -> BenchResult<Self> {
        let nodes = servers.iter().map(|server| RedisRsNode::new(server.url()));
        let lock = Redlock::new(nodes.collect::<Result<Vec<_>, _>>()?)?;
        Ok(Self { lock })
    }
}

impl Side for Ours {
    type Name = LockRequest;

    fn name(resource: &str) -> LockRequest {
        LockRequest::new(resource)
    }

    async fn pair(&self, request: &LockRequest) -> BenchResult<()> {
        let guard = self.lock.acquire(request).await?;
        Ok(guard.release().await?)
    }
}
