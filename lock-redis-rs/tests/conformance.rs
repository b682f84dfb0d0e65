//! The node keeps the rules, over both versions of the protocol and over a connection of its user's.

use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::node::{Protocol, Target};
use lock_testkit::conformance::{RedisHarness, TokioDriver};
use redis::aio::ConnectionManagerConfig;

fn over(protocol: Protocol) -> RedisHarness {
    RedisHarness::new(
        TokioDriver::multi_thread(),
        move |target: Target| async move {
            // A check that asks for a protocol gets that one.
            RedisRsNode::new(target.or_protocol(protocol).url())
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

/// What redis-rs offers to whoever wants a connection that comes back.
mod lent_connection_manager {
    use super::*;
    lock_testkit::conformance! {
        harness: RedisHarness::new(TokioDriver::multi_thread(), lend_manager),
        unsupported: {
            a_refused_call_is_not_sent_and_names_its_cause:
                "redis-rs does not say whether a command was sent",
            a_wrong_password_is_named_as_the_cause:
                "redis-rs does not say what the server answered to the password",
            a_half_open_connection_is_replaced:
                "a connection manager keeps a connection that leads nowhere",
            a_black_hole_ends_no_node:
                "a connection manager keeps a connection that leads nowhere",
            connections_do_not_grow_with_faults:
                "a connection manager keeps a connection that leads nowhere",
        },
    }
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
