//! The whole lock on real servers, over `RedisRsNode`.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/redlock/mod.rs"]
mod redlock;
mod rt;

/// Whose nodes are tested.
mod backend {
    use lock_redis_rs::RedisRsNode;

    pub(crate) const NAME: &str = "lock-redis-rs";

    pub(crate) type Node = RedisRsNode;

    pub(crate) fn node(url: String) -> Node {
        RedisRsNode::new(url).unwrap()
    }
}
