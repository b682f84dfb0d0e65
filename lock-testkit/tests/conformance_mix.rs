//! A lock over nodes of all kinds, redis-rs and fred in one, keeps the rules.

#![cfg(unix)]

use std::sync::Arc;

use lock_fred::FredNode;
use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::{NodeHarness, RedisHarness, RedlockHarness, TokioDriver};

fn redis_rs() -> Arc<dyn NodeHarness> {
    let driver = TokioDriver::multi_thread();
    Arc::new(RedisHarness::new(driver, |target| async move {
        RedisRsNode::new(target.url())
    }))
}

fn fred() -> Arc<dyn NodeHarness> {
    let driver = TokioDriver::multi_thread();
    Arc::new(RedisHarness::new(driver, |target| async move {
        FredNode::new(target.url())
    }))
}

lock_testkit::lock_conformance! {
    harness: RedlockHarness::mixed(vec![redis_rs(), fred(), redis_rs(), fred(), redis_rs()]),
}
