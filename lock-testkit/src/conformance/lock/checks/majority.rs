//! A majority of nodes fails.

use std::fmt::Debug;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use lock_core::{
    AcquireError, DistributedLock, ExtendError, LockRequest, NodeReport, NodeReports, NodeVote,
    ReleaseError, Unavailable,
};

use super::outage::{DENIED, LATE, heal, inject, majority, warm_up};
use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx, POLL, TRIES};
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// Fails unless the error lists each node in order, and why the nodes that failed did.
fn expect_reports(
    cx: &LockCx,
    reports: &NodeReports,
    faulty: Range<usize>,
    cause: &str,
) -> CheckResult {
    let reports = reports.as_slice();
    let labels: Vec<_> = reports.iter().map(|r| r.label.to_string()).collect();
    expect_eq("the nodes that the error names", &cx.bed().nodes(), &labels)?;
    for report in &reports[faulty] {
        let is_failed = matches!(&report.vote, NodeVote::Failed(_));
        expect(is_failed, "the failure of a node that failed", report)?;
        let text = report.to_string();
        let expected = format!("the cause {cause:?}");
        expect(text.contains(cause), &expected, text)?;
    }
    Ok(())
}

/// Fails unless both ways to acquire say that it is an outage.
async fn expect_outage(
    cx: &LockCx,
    lock: &Arc<dyn DistributedLock>,
    name: &str,
    faulty: &Range<usize>,
    cause: &str,
) -> CheckResult {
    let request = long(name).max_wait(50 * MS);
    let mut tries = 0;
    let (tried, waited, took) = loop {
        tries += 1;
        let tried = cx.ends("a try", lock.try_acquire(&request)).await?;
        let start = cx.now();
        let waited = cx.ends("an acquire", lock.acquire(&request)).await?;
        let took = cx.now().saturating_sub(start);
        let is_late = match (&tried, &waited) {
            (Err(AcquireError::Unavailable(tried)), Err(AcquireError::Unavailable(waited))) => {
                is_late(tried, faulty) || is_late(waited, faulty)
            }
            _ => false,
        };
        if cause.is_empty() || !is_late || tries == TRIES {
            break (tried, waited, took);
        }
        cx.sleep(POLL * 10).await;
    };
    for (result, is_wait) in [(debug(tried), false), (debug(waited), true)] {
        let outage = match result {
            Err(AcquireError::Unavailable(outage)) => outage,
            Err(other) => return Err(Failure::new("`Unavailable`", format!("{other:?}"))),
            Ok(found) => return Err(Failure::new("`Unavailable`", found)),
        };
        expect_reports(cx, &outage.nodes, faulty.clone(), cause)?;
        let healthy = cx.bed().nodes().len() - faulty.len();
        let explains = outage.quorum > healthy;
        expect(explains, "a quorum that was out of reach", &outage)?;
        expect(outage.attempts >= 1, "a number of attempts", &outage)?;
        let is_true = !is_wait || outage.waited <= took;
        expect(is_true, "the wait that there was", (&outage, took))?;
    }
    Ok(())
}

/// Returns whether a busy machine has kept a node from answering in time with its error.
fn is_late(outage: &Unavailable, faulty: &Range<usize>) -> bool {
    let reports = outage.nodes.as_slice().get(faulty.clone());
    let is_late = |report: &NodeReport| match &report.vote {
        NodeVote::Failed(error) => error.code().is_none(),
        _ => false,
    };
    reports.unwrap_or_default().iter().any(is_late)
}

fn debug<T: Debug>(result: Result<T, AcquireError>) -> Result<String, AcquireError> {
    result.map(|found| format!("{found:?}"))
}

async fn is_an_outage(cx: &LockCx, fault: NodeFault, cause: &str) -> CheckResult {
    let faulty = majority(cx)?;
    let rival = cx.rival().await?;
    warm_up(cx, cx.lock()).await?;
    warm_up(cx, &rival).await?;
    inject(cx, faulty.clone(), &fault).await?;
    expect_outage(cx, cx.lock(), "k", &faulty, cause).await?;
    // Nothing is left where it can be released.
    cx.expect_nothing_left().await?;
    heal(cx, faulty.clone()).await?;
    cx.expect_nothing_left().await?;

    // The same lock works again. While it is held, an outage is still an outage.
    let guard = cx.take(cx.lock(), long("held")).await?;
    cx.expect_taken(&rival, &long("held")).await?;
    inject(cx, faulty.clone(), &fault).await?;
    expect_outage(cx, &rival, "held", &faulty, cause).await?;
    heal(cx, faulty).await?;
    expect(guard.is_valid(), "the holder to be left alone", &guard)?;
    drop(cx.take(cx.lock(), long("after")).await?);
    drop(guard);
    cx.expect_nothing_left().await
}

pub(crate) async fn a_majority_of_hung_nodes_is_an_outage(cx: &LockCx) -> CheckResult {
    is_an_outage(cx, NodeFault::Hang, "").await
}

pub(crate) async fn a_majority_of_dead_nodes_is_an_outage(cx: &LockCx) -> CheckResult {
    is_an_outage(cx, NodeFault::Refuse, "").await
}

pub(crate) async fn a_majority_of_denying_nodes_is_an_outage(cx: &LockCx) -> CheckResult {
    is_an_outage(cx, DENIED, "NOPERM").await
}

pub(crate) async fn a_late_majority_is_no_lock(cx: &LockCx) -> CheckResult {
    is_an_outage(cx, NodeFault::Delay(LATE), "").await
}

pub(crate) async fn an_outage_leaves_a_held_lock_its_validity(cx: &LockCx) -> CheckResult {
    let faulty = majority(cx)?;
    warm_up(cx, cx.lock()).await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    inject(cx, faulty.clone(), &NodeFault::Hang).await?;
    let extended = cx.ends("an extension", guard.extend(2 * LONG)).await?;
    let Err(ExtendError::Unavailable { quorum, nodes }) = &extended else {
        return Err(Failure::new("`Unavailable`", format!("{extended:?}")));
    };
    let healthy = cx.bed().nodes().len() - faulty.len();
    expect(*quorum > healthy, "a quorum out of reach", &extended)?;
    expect_reports(cx, nodes, faulty.clone(), "")?;
    let is_old = guard.remaining() > LONG / 2 && guard.remaining() <= LONG;
    expect(is_old, "the old validity", guard.remaining())?;
    heal(cx, faulty).await?;
    let extended = super::extending::extend(cx, &guard, 2 * LONG).await?;
    expect(extended.is_ok(), "an extension afterwards", &extended)?;
    expect(
        guard.remaining() > LONG,
        "the new validity",
        guard.remaining(),
    )
}

pub(crate) async fn a_release_during_an_outage_is_made_good(cx: &LockCx) -> CheckResult {
    let faulty = majority(cx)?;
    let rival = cx.rival().await?;
    warm_up(cx, cx.lock()).await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    inject(cx, faulty.clone(), &NodeFault::Hang).await?;
    let released = cx.ends("a release", guard.release()).await?;
    let Err(ReleaseError::Unavailable { quorum, nodes }) = &released else {
        return Err(Failure::new("`Unavailable`", format!("{released:?}")));
    };
    let healthy = cx.bed().nodes().len() - faulty.len();
    expect(*quorum > healthy, "a quorum out of reach", &released)?;
    expect_reports(cx, nodes, faulty.clone(), "")?;
    expect(!guard.is_valid(), "a guard that is over", &guard)?;
    heal(cx, faulty).await?;
    cx.expect_nothing_left().await?;
    drop(cx.take(&rival, long("k")).await?);
    Ok(())
}

pub(crate) async fn a_wait_gives_up_when_too_few_nodes_answer(cx: &LockCx) -> CheckResult {
    let faulty = majority(cx)?;
    let rival = cx.rival().await?;
    warm_up(cx, cx.lock()).await?;
    warm_up(cx, &rival).await?;
    let giving_up = long("k")
        .max_wait(Duration::from_secs(20))
        .fail_if_unavailable(true);
    let holder = LockRequest::new("k").ttl(300 * MS);
    let _holder = cx.take(cx.lock(), holder).await?;
    let guard = cx.wait(&rival, &giving_up).await?;
    let guard = guard
        .map_err(|error| Failure::new("a wait that outlasts a holder", format!("{error:?}")))?;
    inject(cx, faulty.clone(), &NodeFault::Refuse).await?;
    let request = long("k").max_wait(Duration::from_secs(10));
    {
        let first = pin!(cx.ends("an acquire", rival.acquire(&giving_up)));
        let longer = pin!(cx.lock().acquire(&request));
        match select(first, longer).await {
            Either::Left((Ok(Err(AcquireError::Unavailable(_))), _)) => {}
            Either::Left((other, _)) => {
                return Err(Failure::new("`Unavailable`", format!("{:?}", other?)));
            }
            Either::Right((longer, _)) => {
                return Err(Failure::new(
                    "an end before that of a wait of 10 s",
                    format!("that one ended first: {longer:?}"),
                ));
            }
        }
    }
    heal(cx, faulty).await?;
    drop(guard);
    cx.expect_nothing_left().await
}
