//! The nodes, and the lock over them.

use std::sync::Arc;

use lock_core::{BuildError, DistributedLock, RedisNode, Redlock};
use lock_testkit::MemoryNode;

use crate::BoxError;

/// Nodes of any kind, even mixed.
pub(crate) type Nodes = Vec<Arc<dyn RedisNode>>;

/// The lock that the instances share.
pub(crate) fn locks(nodes: Nodes) -> Result<Arc<dyn DistributedLock>, BuildError> {
    let redlock = Redlock::builder().nodes(nodes).prefix("cron-example:");
    Ok(Arc::new(redlock.build()?))
}

/// Five nodes in this process.
pub(crate) fn in_process() -> Nodes {
    let nodes = MemoryNode::several(5).into_iter();
    nodes
        .map(|node| Arc::new(node) as Arc<dyn RedisNode>)
        .collect()
}

cfg_if::cfg_if! {
    if #[cfg(any(feature = "redis-rs", feature = "redis-rs-smol"))] {
        use lock_redis_rs::RedisRsNode as ServerNode;
    } else if #[cfg(feature = "fred")] {
        use lock_fred::FredNode as ServerNode;
    }
}

cfg_if::cfg_if! {
    if #[cfg(any(feature = "redis-rs", feature = "redis-rs-smol", feature = "fred"))] {
        /// Real servers. Nothing connects before the first command.
        pub(crate) fn connect(urls: &[String]) -> Result<Nodes, BoxError> {
            urls.iter()
                .map(|url| {
                    let node = ServerNode::new(url)?;
                    Ok(Arc::new(node) as Arc<dyn RedisNode>)
                })
                .collect()
        }
    } else {
        /// Real servers need a client.
        pub(crate) fn connect(_: &[String]) -> Result<Nodes, BoxError> {
            Err("--nodes needs a Redis client: build with --features redis-rs, redis-rs-smol or fred".into())
        }
    }
}
