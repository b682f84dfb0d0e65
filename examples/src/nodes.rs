//! The nodes, and the lock over them.

use std::sync::Arc;

use lock_core::{BuildError, DistributedLock, RedisNode, Redlock};
use lock_testkit::MemoryNode;

use crate::BoxError;

/// Nodes of any kind, even mixed.
pub type Nodes = Vec<Arc<dyn RedisNode>>;

/// The lock that the instances share.
///
/// # Errors
///
/// No lock can be built on these nodes.
pub fn locks(nodes: Nodes) -> Result<Arc<dyn DistributedLock>, BuildError> {
    Ok(Arc::new(redlock(nodes)?))
}

/// The same, as what it is: for inspection, shutdown and the like.
///
/// # Errors
///
/// As [`locks`].
pub fn redlock(nodes: Nodes) -> Result<Redlock, BuildError> {
    let builder = Redlock::builder().nodes(nodes).prefix("examples:");
    Ok(builder.build()?.into())
}

/// What `--nodes` names; without it, five nodes in this process.
///
/// # Errors
///
/// As [`connect`].
pub fn choose(urls: &[String]) -> Result<Nodes, BoxError> {
    match urls {
        [] => Ok(in_process()),
        urls => connect(urls),
    }
}

/// Five nodes in this process.
pub fn in_process() -> Nodes {
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
        ///
        /// # Errors
        ///
        /// A URL cannot be one of a server.
        pub fn connect(urls: &[String]) -> Result<Nodes, BoxError> {
            urls.iter()
                .map(|url| {
                    let node = ServerNode::new(url)?;
                    Ok(Arc::new(node) as Arc<dyn RedisNode>)
                })
                .collect()
        }
    } else {
        /// Real servers need a client.
        ///
        /// # Errors
        ///
        /// Always: the program was built without one.
        pub fn connect(_: &[String]) -> Result<Nodes, BoxError> {
            Err("--nodes needs a Redis client: build with --features redis-rs, redis-rs-smol or fred".into())
        }
    }
}
