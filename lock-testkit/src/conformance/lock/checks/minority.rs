//! A minority of nodes fails.

use super::outage::{DENIED, LATE, heal, inject, minority, warm_up};
use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, expect};

/// All that a lock does, while some nodes do not.
async fn does_no_harm(cx: &LockCx, fault: NodeFault) -> CheckResult {
    let faulty = minority(cx)?;
    let rival = cx.rival().await?;
    warm_up(cx, cx.lock()).await?;
    warm_up(cx, &rival).await?;
    let before = cx.take(cx.lock(), long("before")).await?;
    inject(cx, faulty.clone(), &fault).await?;

    for _ in 0..3 {
        let during = cx.take(cx.lock(), long("during")).await?;
        cx.expect_taken(&rival, &long("during")).await?;
        let is_long = during.remaining() > LONG / 2;
        expect(is_long, "most of the ttl", during.remaining())?;
        let released = super::releasing::release(cx, &during).await?;
        expect(released.is_ok(), "a release of a held lock", &released)?;
        drop(cx.take(&rival, long("during")).await?);
    }

    let extended = super::extending::extend(cx, &before, 2 * LONG).await?;
    expect(extended.is_ok(), "an extension of a held lock", &extended)?;
    let is_longer = before.remaining() > LONG;
    expect(is_longer, "the new validity", before.remaining())?;
    cx.expect_taken(&rival, &long("before")).await?;
    let released = super::releasing::release(cx, &before).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    drop(cx.take(&rival, long("before")).await?);
    cx.expect_nothing_left().await?;

    heal(cx, faulty).await?;
    cx.expect_nothing_left().await?;
    cx.sleep(MS).await;
    drop(cx.take(cx.lock(), long("after")).await?);
    Ok(())
}

pub(crate) async fn a_minority_of_hung_nodes_does_no_harm(cx: &LockCx) -> CheckResult {
    does_no_harm(cx, NodeFault::Hang).await
}

pub(crate) async fn a_minority_of_dead_nodes_does_no_harm(cx: &LockCx) -> CheckResult {
    does_no_harm(cx, NodeFault::Refuse).await
}

pub(crate) async fn a_minority_of_denying_nodes_does_no_harm(cx: &LockCx) -> CheckResult {
    does_no_harm(cx, DENIED).await
}

pub(crate) async fn a_minority_of_late_nodes_does_no_harm(cx: &LockCx) -> CheckResult {
    does_no_harm(cx, NodeFault::Delay(LATE)).await
}
