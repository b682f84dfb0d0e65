//! Redlock over fred keeps the rules of locks.

#![cfg(unix)]

use lock_fred::FredNode;
use lock_testkit::conformance::{RedisHarness, RedlockHarness, TokioDriver};

fn servers() -> RedisHarness {
    RedisHarness::new(TokioDriver::multi_thread(), |target| async move {
        FredNode::new(target.url())
    })
}

mod five_servers {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(5, servers()),
    }
}
