//! A server that is down, or not yet up.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lock_core::node::NodeErrorKind;

use crate::conformance::node::calls::{AGES, BRIEF, expect_in_doubt, told};
use crate::conformance::node::cx::{LONG, NodeCx, acquire, expect_not_sent};
use crate::conformance::node::harness::{Access, NodeFault};
use crate::conformance::{CheckResult, expect, expect_eq};

pub(crate) async fn a_refused_call_is_not_sent_and_names_its_cause(cx: &NodeCx) -> CheckResult {
    cx.inject(NodeFault::Refuse).await?;
    let error = cx.fails(&acquire("k", cx.token()), AGES).await?;
    expect_not_sent(&error)?;
    expect(
        error.source().is_some(),
        "the transport's error as the source of this one",
        told(&error),
    )
}

pub(crate) async fn calls_fail_fast_while_the_server_is_down(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::Refuse).await?;
    // For longer than a pause between two connects may last.
    let start = cx.runtime().now();
    while cx.runtime().now().saturating_sub(start) < Duration::from_millis(300) {
        cx.fails(&acquire("k", cx.token()), AGES).await?;
        cx.sleep(Duration::from_millis(5)).await;
    }
    cx.heal().await?;
    cx.until_answered().await
}

pub(crate) async fn what_failed_while_the_server_was_down_is_never_sent(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::Refuse).await?;
    for n in 0..20 {
        let error = cx
            .fails(&acquire(format!("k{n}"), cx.token()), BRIEF)
            .await?;
        if error.kind() != NodeErrorKind::NotSent {
            expect_in_doubt(&error)?;
        }
    }
    cx.heal().await?;
    cx.until_answered().await?;
    cx.until_answered().await?;
    cx.expect_no_keys("calls that had failed before").await
}

pub(crate) async fn a_call_given_up_while_the_server_is_down_is_never_sent(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::Refuse).await?;
    for n in 0..10 {
        let command = acquire(format!("k{n}"), cx.token());
        cx.give_up(cx.call(command, LONG)).await;
    }
    cx.heal().await?;
    cx.until_answered().await?;
    cx.until_answered().await?;
    cx.expect_no_keys("calls that were given up before").await
}

pub(crate) async fn a_node_that_never_reached_its_server_does_when_it_is_up(
    cx: &NodeCx,
) -> CheckResult {
    cx.inject(NodeFault::Refuse).await?;
    let node = cx.bed().connect(&Access::default()).await?;
    for _ in 0..5 {
        let command = acquire("k", cx.token());
        let answer = cx
            .ends_soon("a call", node.execute(&command, BRIEF))
            .await?;
        expect(answer.is_err(), "an error while the server is down", answer)?;
    }
    cx.heal().await?;
    cx.until_answers(&*node).await
}

pub(crate) async fn a_node_is_built_while_its_server_is_down_or_hangs(cx: &NodeCx) -> CheckResult {
    for fault in [NodeFault::Refuse, NodeFault::Hang] {
        cx.inject(fault).await?;
        let bed = Arc::clone(cx.bed());
        // In a task, since a constructor may block its thread.
        let build = cx.all(vec![Box::pin(async move {
            bed.connect(&Access::default()).await.map(drop)
        })]);
        for built in cx.ends_soon("building a node", build).await?? {
            built?;
        }
        cx.heal().await?;
    }
    Ok(())
}

pub(crate) async fn building_a_node_opens_no_connection(cx: &NodeCx) -> CheckResult {
    let before = cx.bed().opened().await?;
    let node = cx.bed().connect(&Access::default()).await?;
    cx.sleep(BRIEF).await;
    expect_eq(
        "connections opened by it",
        &0,
        &(cx.bed().opened().await? - before),
    )?;
    cx.until_answers(&*node).await
}
