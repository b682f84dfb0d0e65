//! Requests that cannot work.

use std::fmt::Debug;
use std::time::Duration;

use lock_core::{AcquireError, InvalidInput, LockRequest, Ttl};

use super::MS;
use crate::conformance::lock::cx::LockCx;
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// Lifetimes that no lock has: below a millisecond or above a year.
pub(super) const BAD_TTLS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_micros(999),
    Duration::from_secs(366 * 24 * 60 * 60),
    Duration::MAX,
];

/// Returns whether the refusal is for this ttl.
pub(super) fn names_ttl(invalid: &InvalidInput, given: Duration) -> bool {
    match invalid {
        InvalidInput::TtlTooShort { ttl } => *ttl == given && given < Ttl::MIN.as_duration(),
        InvalidInput::TtlTooLong { ttl } => *ttl == given && given > Ttl::MAX.as_duration(),
        _ => false,
    }
}

/// Returns what both ways to acquire say about a request that cannot work.
async fn refusals(cx: &LockCx, request: &LockRequest) -> CheckResult<[InvalidInput; 2]> {
    let tried = cx.ends("a try", cx.lock().try_acquire(request)).await?;
    let waited = cx.ends("an acquire", cx.lock().acquire(request)).await?;
    Ok([invalid(tried)?, invalid(waited)?])
}

fn invalid<T: Debug>(result: Result<T, AcquireError>) -> CheckResult<InvalidInput> {
    match result {
        Err(AcquireError::Invalid(invalid)) => Ok(invalid),
        other => Err(Failure::new("`Invalid`", format!("{other:?}"))),
    }
}

/// Fails unless nothing was set and the lock still works.
async fn expect_no_harm(cx: &LockCx) -> CheckResult {
    let left = cx.bed().leftovers().await?;
    expect(left.is_empty(), "nothing to be left", &left)?;
    drop(cx.take(cx.lock(), LockRequest::new("k")).await?);
    Ok(())
}

pub(crate) async fn a_ttl_that_cannot_work_is_refused(cx: &LockCx) -> CheckResult {
    for ttl in BAD_TTLS {
        for invalid in refusals(cx, &LockRequest::new("k").ttl(ttl)).await? {
            let expected = format!("a refusal that names the ttl of {ttl:?}");
            expect(names_ttl(&invalid, ttl), &expected, &invalid)?;
        }
    }
    expect_no_harm(cx).await
}

pub(crate) async fn an_empty_name_is_refused(cx: &LockCx) -> CheckResult {
    for invalid in refusals(cx, &LockRequest::new("")).await? {
        expect_eq("the refusal", &InvalidInput::ResourceEmpty, &invalid)?;
    }
    expect_no_harm(cx).await
}

pub(crate) async fn holding_for_longer_than_the_ttl_is_refused(cx: &LockCx) -> CheckResult {
    let (ttl, hold) = (10_000 * MS, 10_001 * MS);
    let request = LockRequest::new("k").ttl(ttl).hold_at_least(hold);
    for invalid in refusals(cx, &request).await? {
        let expected = InvalidInput::HoldAboveTtl { hold, ttl };
        expect_eq("the refusal", &expected, &invalid)?;
    }
    expect_no_harm(cx).await
}

pub(crate) async fn bad_input_is_refused_before_any_node_is_asked(cx: &LockCx) -> CheckResult {
    for node in super::outage::all_nodes(cx)? {
        cx.bed().inject(node, &NodeFault::Hang).await?;
    }
    let hold = LockRequest::new("k")
        .ttl(MS * 1_000)
        .hold_at_least(MS * 1_001);
    for request in [
        LockRequest::new("k").ttl(Duration::ZERO),
        LockRequest::new("k").ttl(Duration::MAX),
        LockRequest::new(""),
        hold,
    ] {
        refusals(cx, &request).await?;
    }
    Ok(())
}
