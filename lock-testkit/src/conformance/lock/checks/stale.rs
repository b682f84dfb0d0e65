//! Holders that come too late.

use std::sync::Arc;

use lock_core::{DistributedLock, ExtendError, LockGuard, LockRequest, ReleaseError};

use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::{CheckResult, expect};

/// Makes a holder whose ttl is over, and its successor.
async fn stale_and_successor(
    cx: &LockCx,
    successor: &Arc<dyn DistributedLock>,
) -> CheckResult<(LockGuard, LockGuard)> {
    let stale = cx
        .take(cx.lock(), LockRequest::new("k").ttl(150 * MS))
        .await?;
    let next = cx.take(successor, long("k")).await?;
    Ok((stale, next))
}

/// Fails unless the successor still has the whole lock.
async fn expect_untouched(cx: &LockCx, next: &LockGuard) -> CheckResult {
    expect(next.is_valid(), "the successor's guard to be valid", next)?;
    let third = cx.rival().await?;
    cx.expect_taken(&third, &long("k")).await?;
    let extended = super::extending::extend(cx, next, LONG + LONG).await?;
    expect(extended.is_ok(), "the successor to extend", &extended)?;
    let released = super::releasing::release(cx, next).await?;
    expect(released.is_ok(), "the successor to release", &released)
}

pub(crate) async fn a_stale_extension_finds_the_lock_lost(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let (stale, next) = stale_and_successor(cx, &rival).await?;
    expect(!stale.is_valid(), "a guard that is over", &stale)?;
    let extended = super::extending::extend(cx, &stale, LONG).await?;
    let is_lost = matches!(extended, Err(ExtendError::Lost));
    expect(is_lost, "`Lost`", &extended)?;
    expect(!stale.is_valid(), "a guard that stays over", &stale)?;
    expect_untouched(cx, &next).await
}

pub(crate) async fn a_stale_release_finds_the_lock_not_held(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let (stale, next) = stale_and_successor(cx, &rival).await?;
    for _ in 0..2 {
        let released = super::releasing::release(cx, &stale).await?;
        let is_right = matches!(released, Err(ReleaseError::NotHeld));
        expect(is_right, "`NotHeld`", &released)?;
    }
    expect_untouched(cx, &next).await
}

pub(crate) async fn dropping_a_stale_guard_leaves_the_successor_alone(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let (stale, next) = stale_and_successor(cx, &rival).await?;
    drop(stale);
    cx.sleep(30 * MS).await;
    expect_untouched(cx, &next).await
}
