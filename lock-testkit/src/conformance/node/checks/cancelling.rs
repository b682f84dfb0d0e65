//! Calls that are dropped before they have ended.

use crate::conformance::CheckResult;
use crate::conformance::node::calls::{AGES, BRIEF, expect_about_holder};
use crate::conformance::node::cx::{NodeCx, not_answered};
use crate::conformance::node::harness::NodeFault;

pub(crate) async fn a_call_dropped_in_flight_leaves_the_others_their_replies(
    cx: &NodeCx,
) -> CheckResult {
    cx.put_holders(20).await?;
    cx.teach_scripts().await?;
    cx.inject(NodeFault::Hang).await?;
    let mut calls = Vec::new();
    for n in 0..10 {
        let mut call = cx.call(cx.ask_holder(n), AGES);
        cx.begin(&mut call).await?;
        calls.push((n, call));
    }
    // Their commands leave.
    cx.sleep(BRIEF).await;
    calls.retain(|(n, _)| n % 3 == 2);
    // What a dropped call takes along goes now.
    cx.sleep(BRIEF).await;
    cx.heal().await?;
    for (n, call) in calls {
        let answer = cx.ends_soon("a call beside dropped ones", call).await?;
        let reply = answer.map_err(|error| not_answered(&cx.ask_holder(n), &error))?;
        expect_about_holder(n, &reply)?;
    }
    cx.expect_own_replies(20).await
}

pub(crate) async fn dropping_every_call_leaves_the_node_usable(cx: &NodeCx) -> CheckResult {
    cx.put_holders(10).await?;
    cx.teach_scripts().await?;
    for round in 0..20 {
        for n in 0..5 {
            let mut call = cx.call(cx.ask_holder(n), AGES);
            // An immediate answer is just as good.
            drop(futures::poll!(&mut call));
        }
        let command = cx.ask_holder(5 + round % 5);
        let answer = cx.ends_soon("a call", cx.send(&command)).await?;
        let reply = answer.map_err(|error| not_answered(&command, &error))?;
        expect_about_holder(5 + round % 5, &reply)?;
    }
    Ok(())
}
