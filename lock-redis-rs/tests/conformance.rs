//! The node keeps the rules, over both versions of the protocol.

use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::node::Target;
use lock_testkit::conformance::{RedisHarness, TokioDriver};

fn over(protocol: &'static str) -> RedisHarness {
    RedisHarness::new(TokioDriver::multi_thread(), move |target: Target| {
        // A check that asks for a protocol gets that one.
        let url = match target.protocol() {
            Some(_) => target.url(),
            None => format!("{}/?protocol={protocol}", target.url()),
        };
        async move { RedisRsNode::new(url) }
    })
}

mod resp2 {
    use super::*;
    lock_testkit::conformance! { harness: over("resp2") }
}

mod resp3 {
    use super::*;
    lock_testkit::conformance! { harness: over("resp3") }
}
