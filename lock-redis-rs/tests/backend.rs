//! What every backend has to hold on real servers and runtimes, over `RedisRsNode`.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/backend/mod.rs"]
mod claims;
// With smol, a node works from everywhere.
#[cfg(not(feature = "smol"))]
#[path = "../../lock-testkit/tests/backend/outside_of_tokio.rs"]
mod outside_of_tokio;
mod support;

#[cfg(not(feature = "smol"))]
use {futures::executor::block_on, lock_core::Reply};

use lock_core::RedisNode;
use lock_core::node::NodeErrorKind;
use support::*;

/// Whose nodes are tested.
mod backend {
    #![allow(dead_code, reason = "not all of it on smol")]

    use lock_redis_rs::RedisRsNode;

    pub(crate) type Node = RedisRsNode;

    pub(crate) fn node(url: impl AsRef<str>) -> Node {
        RedisRsNode::new(url).unwrap()
    }

    pub(crate) const TASKS: usize = 1;
    pub(crate) const NEEDS_TIMERS: bool = false;
    pub(crate) const CLOSES_AT_CLUSTERDOWN: bool = false;
    pub(crate) const LOOKS_AT_REPLIES: bool = true;
}

#[apply(async_test!)]
async fn a_proxy_that_hangs_up_at_the_handshake_is_told_as_one() {
    // As twemproxy does, which knows no `CLIENT` and no `HELLO`, and shares the keys of a script between servers.
    let proxy = FakeServer::start_raw(|_, words| match words[0].as_slice() {
        b"PING" => Act::Answer("+PONG\r\n"),
        b"AUTH" | b"SET" => Act::Answer("+OK\r\n"),
        _ => Act::Close,
    });
    let with_password = proxy.url().replace("redis://", "redis://:password@");
    for url in [proxy.url(), with_password] {
        for protocol in ["resp2", "resp3"] {
            let node = backend::node(format!("{url}/?protocol={protocol}"));
            let error = node.execute(&acquire("k", token()), LONG).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), NodeErrorKind::NotSent);
            assert!(chain(&error).contains("twemproxy"), "{}", chain(&error));
        }
    }
    assert!(!proxy.received().contains(&"SET".to_owned()));
}

#[cfg(not(feature = "smol"))]
#[test]
fn a_call_outside_of_tokio_works_while_a_runtime_runs_the_connection() {
    let server = RedisServer::start().unwrap();
    let node = backend::node(server.url());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(until_answered(&node));
    let reply = block_on(node.execute(&release("k", token()), LONG));
    assert_eq!(reply.unwrap(), Reply::Int(0));
    server.pause().unwrap();
    let error = block_on(node.execute(&release("k", token()), SHORT));
    assert_eq!(error.unwrap_err().kind(), NodeErrorKind::NoAnswer);
    server.resume().unwrap();
}

#[cfg(not(feature = "smol"))]
#[tokio::test]
async fn what_waits_for_a_driver_that_stood_still_for_10_s_is_never_written() {
    use std::pin::pin;
    use std::time::Duration;

    for (stall, is_written) in [(5, 1), (11, 0)] {
        let server = RedisServer::start().unwrap();
        let node = backend::node(server.url());
        until_answered(&node).await;
        let command = acquire("k", token());
        let mut call = pin!(node.execute(&command, 6 * LONG));
        assert!(futures::poll!(&mut call).is_pending());
        // Nobody has polled the driver since, as if its runtime had been blocked.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(stall)).await;
        tokio::time::resume();
        let kind = call.await.map_err(|error| error.kind());
        match is_written {
            0 => assert_eq!(kind, Err(NodeErrorKind::Connection)),
            _ => assert_eq!(kind, Ok(Reply::ok())),
        }
        until_answered(&node).await;
        assert_eq!(calls(&server, "set"), is_written);
    }
}
