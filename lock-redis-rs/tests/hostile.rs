//! A minority of servers that mean harm, over `RedisRsNode`.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/hostile/mod.rs"]
mod claims;
mod support;

/// Whose nodes are tested.
mod backend {
    use lock_redis_rs::RedisRsNode;

    pub(crate) fn node(url: impl AsRef<str>) -> RedisRsNode {
        RedisRsNode::new(url).unwrap()
    }

    pub(crate) const LOOKS_AT_REPLIES: bool = true;
}
