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

#[path = "../../lock-testkit/tests/cluster/conformance.rs"]
mod cluster;

/// Nodes of whole clusters.
fn over_cluster() -> RedisHarness {
    let connect = |target: Target| async move {
        let server = FredNode::new(target.or_protocol(Protocol::Resp3).url())?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(FredNode::cluster([server])?)
    };
    RedisHarness::new(TokioDriver::multi_thread(), connect).over_cluster(3)
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
