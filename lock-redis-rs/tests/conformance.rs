//! The node keeps the rules, over both versions of the protocol and over a connection of its user's.

#![cfg(unix)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::node::{NODE_CHECKS, NodeHarness, Protocol, Target};
use lock_testkit::conformance::{FailureKind, RedisHarness};
use redis::aio::ConnectionManagerConfig;
use rt::driver;

mod rt;

fn over(protocol: Protocol) -> RedisHarness {
    RedisHarness::new(driver(), move |target: Target| async move {
        // A check that asks for a protocol gets that one.
        RedisRsNode::new(target.or_protocol(protocol).url())
    })
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
        let server = RedisRsNode::new(target.url())?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(RedisRsNode::cluster([server])?)
    };
    RedisHarness::new(driver(), connect).over_cluster(3)
}

#[cfg(feature = "bb8")]
mod pooled {
    use super::*;

    lock_testkit::conformance! {
        harness: RedisHarness::new(driver(), |target: Target| async move {
            let pool = bb8::Pool::builder()
                .max_size(1)
                .build_unchecked(redis::Client::open(target.url())?);
            Ok::<_, redis::RedisError>(RedisRsNode::from_pool(target.addr().to_string(), pool))
        }),
        unsupported: {
            a_wrong_password_is_named_as_the_cause:
                "redis-rs does not say what the server answered to the password",
        },
    }
}

/// What a connection manager, which redis-rs offers to whoever wants a connection that comes back,
/// cannot do, and why.
const GAPS: [(&str, &str); 5] = [
    (
        "a_refused_call_is_not_sent_and_names_its_cause",
        "redis-rs does not say whether a command was sent",
    ),
    (
        "a_wrong_password_is_named_as_the_cause",
        "redis-rs does not say what the server answered to the password",
    ),
    (
        "a_half_open_connection_is_replaced",
        "a connection manager keeps a connection that leads nowhere",
    ),
    (
        "a_black_hole_ends_no_node",
        "a connection manager keeps a connection that leads nowhere",
    ),
    (
        "connections_do_not_grow_with_faults",
        "a connection manager keeps a connection that leads nowhere",
    ),
];

/// Calls that wait, for a manager's connection or for a place in its pipeline, leave in any order:
/// they keep it most of the time, so that these are neither kept nor surely broken. The docs of
/// `from_connection` say so.
const BY_CHANCE: [&str; 2] = [
    "calls_that_wait_for_the_connection_keep_their_order",
    "commands_for_one_key_arrive_in_the_order_of_the_calls",
];

#[test]
fn a_borrowed_connection_manager_keeps_the_rules_but_for_its_gaps() {
    let harness: Arc<dyn NodeHarness> = Arc::new(RedisHarness::new(driver(), lend_manager));
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(check) = NODE_CHECKS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = check.info().name;
            let gap = GAPS.iter().find(|(gap, _)| *gap == name);
            match gap {
                _ if BY_CHANCE.contains(&name) => {}
                Some((_, why)) => {
                    let failure = check.run_with_patience(&harness, Duration::from_secs(3));
                    let failure = failure.expect_err(&format!("`{name}` works, though {why}"));
                    assert_ne!(failure.kind(), FailureKind::Setup, "`{name}`: {failure}");
                }
                None => {
                    let result = check.run(&harness);
                    result.unwrap_or_else(|failure| panic!("`{name}`: {failure}"));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(run);
        }
    });
}

async fn lend_manager(target: Target) -> redis::RedisResult<RedisRsNode> {
    let client = redis::Client::open(target.url())?;
    // The calls of a lock have deadlines of their own, and it tries again by itself.
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(None)
        .set_number_of_retries(1);
    let manager = client.get_connection_manager_lazy(config)?;
    let label = target.addr().to_string();
    Ok(RedisRsNode::from_connection(label, manager))
}
