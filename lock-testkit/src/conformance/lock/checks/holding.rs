//! Locks that stay taken for a while.

use std::time::Duration;

use lock_core::{LockGuard, LockRequest};

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, expect};

const HOLD: Duration = Duration::from_millis(400);

/// By how much a lock may end too early: a clock may count whole milliseconds, and clocks differ.
const TOLERANCE: Duration = Duration::from_millis(20);

fn request() -> LockRequest {
    long("k").hold_at_least(HOLD)
}

/// Asks for the lock until it is free, which must not be before its time.
async fn expect_kept(cx: &LockCx, acquired_after: Duration) -> CheckResult {
    let rival = cx.rival().await?;
    let start = cx.now();
    loop {
        let second = cx.ask(&rival, &long("k")).await?;
        let now = cx.now();
        if second.is_some() {
            let kept = now.saturating_sub(acquired_after) + TOLERANCE;
            let expected = format!("a lock kept for {HOLD:?}");
            return expect(kept >= HOLD, &expected, kept);
        }
        let waited = now.saturating_sub(start);
        let is_patient = waited < Duration::from_secs(30);
        expect(is_patient, "a free lock after `hold_at_least`", waited)?;
        cx.sleep(5 * MS).await;
    }
}

pub(crate) async fn a_released_lock_is_kept_for_hold_at_least(cx: &LockCx) -> CheckResult {
    let start = cx.now();
    let guard = cx.take(cx.lock(), request()).await?;
    let released = super::releasing::release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    expect(!guard.is_valid(), "a guard that is over", &guard)?;
    expect_kept(cx, start).await
}

pub(crate) async fn a_dropped_lock_is_kept_for_hold_at_least(cx: &LockCx) -> CheckResult {
    let start = cx.now();
    drop(cx.take(cx.lock(), request()).await?);
    expect_kept(cx, start).await
}

pub(crate) async fn a_release_after_hold_at_least_frees_at_once(cx: &LockCx) -> CheckResult {
    let guard: LockGuard = cx.take(cx.lock(), request()).await?;
    cx.sleep(HOLD + TOLERANCE).await;
    cx.expect_taken(cx.lock(), &long("k")).await?;
    let released = super::releasing::release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    drop(cx.ask_for_freed(&cx.rival().await?, &long("k")).await?);
    Ok(())
}
