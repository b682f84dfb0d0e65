//! Connections that break, or lead nowhere.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use lock_core::Reply;
use lock_core::node::NodeErrorKind;
use lock_core::runtime::BoxFuture;

use crate::conformance::node::calls::{AGES, BRIEF, expect_in_doubt};
use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_or_report, extend, release,
};
use crate::conformance::node::harness::{Entry, NodeFault};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

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
    cx.expect(&acquire_or_report("k", token), &Reply::Int(1))
        .await?;
    cx.expect_held("k", token).await
}

pub(crate) async fn a_lost_reply_is_an_error_to_every_command(cx: &NodeCx) -> CheckResult {
    cx.teach_scripts().await?;
    let token = cx.token();
    for command in [
        acquire("k", token),
        acquire_or_report("k", token),
        extend("k", token, TTL),
        release("k", token),
    ] {
        cx.inject(NodeFault::LoseReply).await?;
        expect_in_doubt(&cx.fails(&command, LONG).await?)?;
        cx.heal().await?;
        cx.until_answered().await?;
    }
    // They have run nevertheless.
    cx.expect_entry("k", &Entry::Missing).await
}

/// How many tasks call at the same time, and how often.
const TASKS: usize = 8;
const CALLS: usize = 40;

pub(crate) async fn nothing_is_sent_twice_while_connections_break(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    let tasks = (0..TASKS).map(|task| {
        let calls = (0..CALLS).map(|n| format!("k{task}-{n}"));
        let calls = calls.map(|key| (cx.call(acquire(&key, cx.token()), LONG), key));
        let (calls, runtime) = (calls.collect::<Vec<_>>(), Arc::clone(cx.runtime()));
        let task: BoxFuture<'static, _> = Box::pin(async move {
            let mut answers = Vec::new();
            for (call, key) in calls {
                answers.push((key, call.await));
                runtime.sleep(Duration::from_millis(1)).await;
            }
            answers
        });
        task
    });
    let mut all = Box::pin(cx.all(tasks.collect()));
    let mut held = false;
    let answers = loop {
        let pause = cx.runtime().sleep(Duration::from_millis(5));
        match select(all, pause).await {
            Either::Left((answers, _)) => break answers?,
            Either::Right(((), rest)) => all = rest,
        }
        // By turns: replies are held back, so that calls are in flight, and these lose them.
        held = !held;
        if held {
            cx.inject(NodeFault::HoldReplies).await?;
        } else {
            cx.inject(NodeFault::Cut).await?;
            cx.heal().await?;
        }
    };
    let received = cx.bed().received().await?;
    for (key, answer) in answers.into_iter().flatten() {
        let names = |words: &&Vec<Vec<u8>>| {
            words.first().is_some_and(|name| name == b"SET")
                && words.iter().any(|word| word == key.as_bytes())
        };
        let sent = received.iter().filter(names).count();
        let is_right = match &answer {
            Ok(reply) => sent == 1 && *reply == Reply::ok(),
            Err(error) if error.kind() == NodeErrorKind::NotSent => sent == 0,
            Err(_) => sent <= 1,
        };
        let found = format!("sent {sent} times, and the answer {answer:?}");
        let expected = "an acquire sent once and granted, or an error that is true of it";
        expect(is_right, expected, found)?;
    }
    Ok(())
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
