//! The node keeps the rules, over both versions of the protocol, with one connection and with as many
//! as a pool has.

#![cfg(unix)]

use fred::clients::Pool;
use fred::types::config::Config;
use lock_fred::FredNode;
use lock_testkit::conformance::node::{Protocol, Target};
use lock_testkit::conformance::{RedisHarness, TokioDriver};

fn over(protocol: Protocol) -> RedisHarness {
    RedisHarness::new(
        TokioDriver::multi_thread(),
        move |target: Target| async move {
            // A check that asks for a protocol gets that one.
            FredNode::new(target.or_protocol(protocol).url())
        },
    )
}

mod resp2 {
    use super::*;
    lock_testkit::conformance! { harness: over(Protocol::Resp2) }
}

mod resp3 {
    use super::*;
    lock_testkit::conformance! { harness: over(Protocol::Resp3) }
}

mod pool {
    use super::*;
    lock_testkit::conformance! {
        harness: RedisHarness::new(TokioDriver::multi_thread(), pooled),
    }
}

async fn pooled(target: Target) -> Result<FredNode, Box<dyn std::error::Error + Send + Sync>> {
    let config = Config::from_url(&target.or_protocol(Protocol::Resp3).url())?;
    let pool = Pool::new(config, None, None, None, 3)?;
    Ok(FredNode::from_pool(&pool)?)
}
