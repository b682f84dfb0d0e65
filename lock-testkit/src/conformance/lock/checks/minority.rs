//! A minority of nodes fails.

use std::ops::Range;
use std::time::Duration;

use lock_core::runtime::ambient;
use lock_core::{LockGuard, ReleaseError};

use super::outage::{DENIED, LATE, heal, inject, minority, warm_up};
use super::{MS, long};
use crate::conformance::failure::chain;
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, Failure, expect};

/// Does everything that a lock does, while some nodes fail.
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

/// Lets nodes answer later than the others, one after the other, but soon enough for every lock.
async fn slow_down(cx: &LockCx, nodes: Range<usize>) -> CheckResult {
    for (node, turn) in nodes.zip((1..=3).cycle()) {
        let delay = NodeFault::Delay(turn * Duration::from_millis(18));
        cx.bed().inject(node, &delay).await?;
    }
    Ok(())
}

pub(crate) async fn a_stale_minority_does_not_keep_a_lock_taken(cx: &LockCx) -> CheckResult {
    let stale = minority(cx)?;
    let (holder, rival) = (cx.rival().await?, cx.rival().await?);
    warm_up(cx, &rival).await?;
    let request = long("k").max_wait(Duration::from_secs(20));
    let guard = cx.on_another_runtime(async {
        let guard = holder.acquire(&request).await;
        guard.map_err(|error| Failure::new("a free lock", chain(&error)))
    })?;
    // The keys of some nodes outlive the release, and the task that would remove them ends with
    // its runtime.
    inject(cx, stale.clone(), &NodeFault::Refuse).await?;
    cx.on_another_runtime(async { release_somehow(&guard).await })?;
    heal(cx, stale.clone()).await?;
    // The nodes that refuse are the first to answer.
    slow_down(cx, stale.end..cx.bed().nodes().len()).await?;
    drop(cx.ask_for_freed(&rival, &long("k")).await?);
    Ok(())
}

/// Releases a lock on a runtime where its nodes have to connect again: a connection that ended with
/// the runtime before may answer the first calls, and then there is a pause.
async fn release_somehow(guard: &LockGuard) -> CheckResult {
    for _ in 0..50 {
        match guard.release().await {
            Err(ReleaseError::Unavailable { .. }) => ambient().sleep(20 * MS).await,
            _ => return Ok(()),
        }
    }
    Err(Failure::new(
        "a release by a majority",
        "an outage, 50 times",
    ))
}

pub(crate) async fn slow_refusals_are_no_outage(cx: &LockCx) -> CheckResult {
    let faulty = minority(cx)?;
    let rival = cx.rival().await?;
    warm_up(cx, &rival).await?;
    let _guard = cx.take(cx.lock(), long("k")).await?;
    inject(cx, faulty.clone(), &DENIED).await?;
    slow_down(cx, faulty.end..cx.bed().nodes().len()).await?;
    cx.expect_taken(&rival, &long("k")).await
}
