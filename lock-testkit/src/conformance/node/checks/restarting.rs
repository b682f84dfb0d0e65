//! A server that restarts, or closes connections for its own reasons.

use std::time::Duration;

use lock_core::Reply;
use lock_core::node::NodeErrorKind;

use crate::conformance::node::calls::told;
use crate::conformance::node::cx::{LONG, NodeCx, TTL, acquire, extend, extended, release, send};
use crate::conformance::node::harness::{Entry, NodeFault};
use crate::conformance::{CheckResult, expect, expect_eq};

pub(crate) async fn a_server_that_restarts_without_its_keys_is_found_again(
    cx: &NodeCx,
) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    cx.expect(&extend("k", token, TTL), &extended(1)).await?;
    cx.inject(NodeFault::RestartEmpty).await?;
    cx.until_answered().await?;
    // It has lost its scripts too.
    cx.expect(&extend("k", token, TTL), &extended(0)).await?;
    cx.expect(&release("k", token), &Reply::Int(0)).await?;
    cx.expect(&acquire("k", token), &Reply::ok()).await
}

pub(crate) async fn a_server_that_restarts_with_its_keys_is_found_again(
    cx: &NodeCx,
) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    cx.inject(NodeFault::RestartWithKeys).await?;
    cx.until_answered().await?;
    cx.expect(&acquire("k", cx.token()), &Reply::Nil).await?;
    cx.expect(&release("k", token), &Reply::Int(1)).await?;
    cx.expect_entry("k", &Entry::Missing).await
}

pub(crate) async fn a_connection_that_the_server_closed_for_idleness_is_replaced(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::CloseIdle).await?;
    // A node that keeps its connection busy keeps it.
    let start = cx.runtime().now();
    while cx.bed().connections().await? > 0
        && cx.runtime().now().saturating_sub(start) < Duration::from_secs(6)
    {
        cx.sleep(Duration::from_millis(10)).await;
    }
    let answer = cx
        .ends_soon(
            "a call",
            send(&**cx.node(), &acquire("k", cx.token()), LONG),
        )
        .await?;
    match answer {
        Ok(reply) => expect_eq("the reply", &Reply::ok(), &reply)?,
        Err(error) => expect(
            matches!(
                error.kind(),
                NodeErrorKind::NotSent | NodeErrorKind::Connection
            ),
            "an answer, or an error that tells of the connection",
            told(&error),
        )?,
    }
    cx.until_answered().await
}
