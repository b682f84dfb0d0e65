//! A [`RedisNode`](lock_core::RedisNode) on the `redis` crate.
