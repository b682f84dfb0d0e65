//! Our side: a `Redlock` with its defaults over `RedisRsNode`.

use lock_core::{DistributedLock, LockRequest, Redlock, ReleaseError};
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
        match guard.release().await {
            // A server that had no core for a whole node timeout: the release goes on by itself,
            // and the time that it took is in the result. The raw side has no timeout to notice.
            Ok(()) | Err(ReleaseError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
