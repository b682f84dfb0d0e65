//! Connections that break, or lead nowhere.

use lock_core::Reply;

use crate::conformance::node::calls::{AGES, BRIEF, expect_in_doubt};
use crate::conformance::node::cx::{LONG, NodeCx, acquire, acquire_or_tell};
use crate::conformance::node::harness::{Entry, NodeFault};
use crate::conformance::{CheckResult, Failure, expect_eq};

pub(crate) async fn calls_on_a_connection_that_breaks_are_in_doubt(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::HoldReplies).await?;
    let mut calls = Vec::new();
    for n in 0..10 {
        let mut call = cx.call(acquire(format!("k{n}"), cx.token()), AGES);
        cx.begin(&mut call).await?;
        calls.push(call);
    }
    for n in 0..10 {
        cx.until_received(&format!("k{n}"), 1).await?;
    }
    cx.inject(NodeFault::Cut).await?;
    for call in calls {
        match cx.ends_soon("a call on a broken connection", call).await? {
            Err(error) => expect_in_doubt(&error)?,
            Ok(reply) => {
                return Err(Failure::new(
                    "an error, since no reply came",
                    format!("{reply:?}"),
                ));
            }
        }
    }
    cx.heal().await?;
    cx.until_answered().await
}

pub(crate) async fn a_connection_that_was_cut_is_replaced(cx: &NodeCx) -> CheckResult {
    for _ in 0..3 {
        cx.warm_up().await?;
        cx.inject(NodeFault::Cut).await?;
        cx.until_answered().await?;
    }
    Ok(())
}

pub(crate) async fn a_command_that_was_lost_is_not_sent_again(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::LoseCommand).await?;
    let error = cx.fails(&acquire("k", cx.token()), LONG).await?;
    expect_in_doubt(&error)?;
    cx.until_answered().await?;
    expect_eq("commands sent", &1, &cx.received_for("k").await?.len())?;
    cx.expect_entry("k", &Entry::Missing).await
}

pub(crate) async fn an_acquire_whose_reply_was_lost_is_not_sent_again(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::LoseReply).await?;
    expect_in_doubt(&cx.fails(&acquire("k", cx.token()), LONG).await?)?;
    cx.heal().await?;
    cx.until_answered().await?;
    let mut received = cx.received_for("k").await?;
    // A node may undo what is in doubt.
    received.retain(|words| words.first().is_some_and(|name| name == b"SET"));
    expect_eq("commands sent", &1, &received.len())
}

pub(crate) async fn an_acquire_whose_reply_was_lost_knows_its_token(cx: &NodeCx) -> CheckResult {
    cx.teach_scripts().await?;
    let token = cx.token();
    cx.inject(NodeFault::LoseReply).await?;
    expect_in_doubt(&cx.fails(&acquire("k", token), LONG).await?)?;
    cx.heal().await?;
    cx.until_answered().await?;
    cx.expect(&acquire_or_tell("k", token), &Reply::Int(1))
        .await?;
    cx.expect_held("k", token).await
}

pub(crate) async fn a_half_open_connection_is_replaced(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::HalfOpen).await?;
    cx.until_answered().await
}

pub(crate) async fn a_black_hole_ends_no_node(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::BlackHole).await?;
    for n in 0..10 {
        let error = cx.fails(&acquire("k", cx.token()), BRIEF).await?;
        if n == 0 {
            expect_in_doubt(&error)?;
        }
    }
    cx.heal().await?;
    cx.until_answered().await
}
