//! A server that hangs, or is slow.

use lock_core::Reply;

use crate::conformance::CheckResult;
use crate::conformance::node::calls::{AGES, BRIEF, expect_about_holder, expect_in_doubt};
use crate::conformance::node::cx::{LONG, NodeCx, SHORT, acquire, not_answered, release};
use crate::conformance::node::harness::NodeFault;

pub(crate) async fn a_call_to_a_hung_server_ends_in_time_and_in_doubt(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::Hang).await?;
    for within in [BRIEF, SHORT] {
        let error = cx.fails(&acquire("k", cx.token()), within).await?;
        expect_in_doubt(&error)?;
    }
    cx.heal().await
}

pub(crate) async fn a_hung_call_holds_up_no_other(cx: &NodeCx) -> CheckResult {
    cx.put_holders(1).await?;
    cx.teach_scripts().await?;
    cx.inject(NodeFault::Hang).await?;
    let mut long = cx.call(cx.ask_holder(0), AGES);
    cx.begin(&mut long).await?;
    // For the same key and for others, since a pool may treat them differently.
    for key in ["held 0", "a", "b", "c"] {
        cx.fails(&release(key, cx.token()), BRIEF).await?;
    }
    cx.heal().await?;
    match cx.ends_soon("the long call", long).await? {
        Ok(reply) => expect_about_holder(0, &reply),
        // The other calls may have been reason enough to replace the connection.
        Err(error) => expect_in_doubt(&error),
    }
}

/// Calls end before their replies come. Then these come, while other calls wait for theirs.
async fn late_replies_reach_nobody_else(cx: &NodeCx, fault: NodeFault) -> CheckResult {
    cx.put_holders(20).await?;
    cx.teach_scripts().await?;
    cx.inject(fault).await?;
    // Few, since a node may replace a connection that is silent.
    for n in 0..2 {
        let error = cx.fails(&cx.ask_holder(n), BRIEF).await?;
        if n == 0 {
            expect_in_doubt(&error)?;
        }
    }
    let mut waiting = Vec::new();
    for n in 10..20 {
        let mut call = cx.call(cx.ask_holder(n), AGES);
        // It may end at once if the node is about to connect again.
        if futures::poll!(&mut call).is_pending() {
            waiting.push((n, call));
        }
    }
    cx.heal().await?;
    for (n, call) in waiting {
        if let Ok(reply) = cx.ends_soon("a call behind others", call).await? {
            expect_about_holder(n, &reply)?;
        }
    }
    cx.until_answered().await?;
    cx.expect_own_replies(20).await
}

pub(crate) async fn what_a_hung_server_answers_late_reaches_nobody_else(
    cx: &NodeCx,
) -> CheckResult {
    late_replies_reach_nobody_else(cx, NodeFault::Hang).await
}

pub(crate) async fn replies_that_were_held_back_reach_nobody_else(cx: &NodeCx) -> CheckResult {
    late_replies_reach_nobody_else(cx, NodeFault::HoldReplies).await
}

pub(crate) async fn replies_that_are_slow_reach_nobody_else(cx: &NodeCx) -> CheckResult {
    // Longer than a caller on a busy machine may overrun its deadline.
    late_replies_reach_nobody_else(cx, NodeFault::Delay(20 * SHORT)).await
}

pub(crate) async fn who_waits_long_enough_is_answered_by_a_slow_server(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.inject(NodeFault::Delay(SHORT)).await?;
    let token = cx.token();
    for (command, expected) in [
        (acquire("k", token), Reply::ok()),
        (release("k", token), Reply::Int(1)),
    ] {
        let call = cx.ends_soon("a call", cx.call(command.clone(), LONG));
        let reply = call
            .await?
            .map_err(|error| not_answered(&command, &error))?;
        crate::conformance::expect_eq("the reply", &expected, &reply)?;
    }
    cx.heal().await
}
