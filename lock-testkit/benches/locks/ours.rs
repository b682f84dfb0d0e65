//! Our side: a `Redlock` with its defaults over the nodes of a backend.

use lock_core::{DistributedLock, LockRequest, RedisNode, Redlock, ReleaseError};
use lock_fred::FredNode;
use lock_redis_rs::RedisRsNode;
use lock_testkit::RedisServer;

use crate::BenchResult;
use crate::side::Side;

pub(crate) struct Ours<N> {
    lock: Redlock<N>,
}

impl Ours<RedisRsNode> {
    pub(crate) fn new(servers: &[RedisServer]) -> BenchResult<Self> {
        Self::over(servers, |url| Ok(RedisRsNode::new(url)?))
    }
}

impl Ours<FredNode> {
    pub(crate) fn on_fred(servers: &[RedisServer]) -> BenchResult<Self> {
        Self::over(servers, |url| Ok(FredNode::new(url)?))
    }
}

impl<N: RedisNode> Ours<N> {
    fn over(servers: &[RedisServer], node: fn(String) -> BenchResult<N>) -> BenchResult<Self> {
        let nodes = servers.iter().map(|server| node(server.url()));
        let lock = Redlock::new(nodes.collect::<BenchResult<Vec<_>>>()?)?;
        Ok(Self { lock })
    }
}

impl<N> Clone for Ours<N> {
    fn clone(&self) -> Self {
        Self {
            lock: self.lock.clone(),
        }
    }
}

impl<N: RedisNode> Side for Ours<N> {
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

/// The same with fencing tokens. The limit is then [`Ours`] without.
#[derive(Clone)]
pub(crate) struct Fenced<S>(S);

impl Fenced<Ours<RedisRsNode>> {
    pub(crate) fn new(servers: &[RedisServer]) -> BenchResult<Self> {
        Ok(Self(Ours::new(servers)?))
    }
}

impl Fenced<Ours<FredNode>> {
    pub(crate) fn on_fred(servers: &[RedisServer]) -> BenchResult<Self> {
        Ok(Self(Ours::on_fred(servers)?))
    }
}

impl<S: Side<Name = LockRequest>> Side for Fenced<S> {
    type Name = LockRequest;

    fn name(resource: &str) -> LockRequest {
        // Names of its own, so that neither side meets the other's keys.
        LockRequest::new(format!("fenced:{resource}")).fencing(true)
    }

    async fn pair(&self, request: &LockRequest) -> BenchResult<()> {
        self.0.pair(request).await
    }
}
