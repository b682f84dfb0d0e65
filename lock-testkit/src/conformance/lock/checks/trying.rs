//! Acquiring without waiting.

use futures::future::{Either, select};
use lock_core::AcquireError;
use std::pin::pin;

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure, expect};

pub(crate) async fn a_try_does_not_wait_for_a_holder(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let rival = cx.rival().await?;
    // It has no effect on a try.
    let request = long("k").max_wait(10_000 * MS);
    cx.expect_taken(&rival, &request).await?;
    let tried = pin!(cx.ask(&rival, &request));
    let waited = pin!(rival.acquire(&request));
    match select(tried, waited).await {
        Either::Left((Ok(None), _)) => {}
        Either::Left((tried, _)) => {
            return Err(Failure::new("`None`", format!("{tried:?}")));
        }
        Either::Right((waited, _)) => {
            return Err(Failure::new(
                "a try to end before a wait of 10 s",
                format!("a try that waits longer than that: {waited:?}"),
            ));
        }
    }
    expect(guard.is_valid(), "the holder to be left alone", &guard)
}

pub(crate) async fn a_free_lock_is_never_refused(cx: &LockCx) -> CheckResult {
    let locks = [std::sync::Arc::clone(cx.lock()), cx.rival().await?];
    for round in 0..20 {
        cx.expect_nothing_left().await?;
        let Some(guard) = cx.ask(&locks[round % 2], &long("k")).await? else {
            return Err(Failure::new(
                "the guard of a lock that was released",
                "`None`",
            ));
        };
        let released = super::releasing::release(cx, &guard).await?;
        expect(released.is_ok(), "a release that frees it", &released)?;
    }
    Ok(())
}

pub(crate) async fn a_try_is_never_contended(cx: &LockCx) -> CheckResult {
    let _guard = cx.take(cx.lock(), long("k")).await?;
    let request = long("k").max_wait(std::time::Duration::ZERO);
    let request = request.fail_if_held(true);
    let tried = cx
        .answer(|| async { Ok(cx.lock().try_acquire(&request).await) })
        .await?;
    let is_right = !matches!(tried, Err(AcquireError::Contended(_)));
    expect(is_right, "`None` of a try that met a holder", &tried)?;
    expect(matches!(tried, Ok(None)), "`None`", &tried)
}
