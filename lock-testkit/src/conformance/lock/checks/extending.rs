//! Extending a held lock.

use std::time::Duration;

use lock_core::{ExtendError, LockGuard, LockRequest};

use super::input::{BAD_TTLS, names_ttl};
use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::{CheckResult, Failure, expect};

/// Extends a lock, again after an outage, since none is expected.
pub(super) async fn extend(
    cx: &LockCx,
    guard: &LockGuard,
    ttl: Duration,
) -> CheckResult<Result<(), ExtendError>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match cx.ends("an extension", guard.extend(ttl)).await? {
            Err(ExtendError::Unavailable { .. }) if tries < 20 => cx.sleep(50 * MS).await,
            result => return Ok(result),
        }
    }
}

pub(crate) async fn an_extended_lock_outlives_its_first_ttl(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let ttl = 700 * MS;
    for _ in 0..5 {
        let start = cx.now();
        let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
        let extended = extend(cx, &guard, LONG).await?;
        let is_in_time = cx.now().saturating_sub(start) < ttl / 2;
        if !is_in_time && extended.is_err() {
            // The machine was too busy: the lock was rightly lost.
            drop(guard.release().await);
            continue;
        }
        expect(extended.is_ok(), "an extension of a held lock", &extended)?;
        let is_long = guard.remaining() > LONG / 2;
        expect(is_long, "a validity of the new ttl", guard.remaining())?;
        expect(
            guard.remaining() <= LONG,
            "no more than it",
            guard.remaining(),
        )?;
        cx.sleep(ttl + 50 * MS).await;
        cx.expect_taken(&rival, &long("k")).await?;
        expect(guard.is_valid(), "a valid guard", &guard)?;
        let released = super::releasing::release(cx, &guard).await?;
        return expect(released.is_ok(), "a release of a held lock", released);
    }
    Err(Failure::new("an extension in time", "none, five times"))
}

pub(crate) async fn an_extension_never_shortens(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    let extended = extend(cx, &guard, 250 * MS).await?;
    expect(extended.is_ok(), "an extension of a held lock", &extended)?;
    let is_long = guard.remaining() > LONG / 2;
    expect(is_long, "the longer validity to stand", guard.remaining())?;
    cx.sleep(300 * MS).await;
    cx.expect_taken(&rival, &long("k")).await?;
    expect(guard.is_valid(), "a valid guard", &guard)
}

pub(crate) async fn an_extension_by_a_bad_ttl_changes_nothing(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    for ttl in BAD_TTLS {
        let extended = extend(cx, &guard, ttl).await?;
        let Err(ExtendError::Invalid(invalid)) = extended else {
            return Err(Failure::new("`Invalid`", format!("{extended:?}")));
        };
        let expected = format!("a refusal that names the ttl of {ttl:?}");
        expect(names_ttl(&invalid, ttl), &expected, &invalid)?;
        let is_as_before = guard.remaining() > LONG / 2 && guard.remaining() <= LONG;
        expect(is_as_before, "the old validity", guard.remaining())?;
    }
    cx.expect_taken(&rival, &long("k")).await?;
    let released = super::releasing::release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", released)
}

pub(crate) async fn a_released_lock_cannot_be_extended(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    drop(guard.release().await);
    expect_lost(cx, &guard).await
}

pub(crate) async fn an_expired_lock_is_not_revived(cx: &LockCx) -> CheckResult {
    let ttl = 150 * MS;
    let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
    cx.sleep(ttl).await;
    cx.eventually("an end of the validity", || !guard.is_valid())
        .await?;
    expect_lost(cx, &guard).await
}

async fn expect_lost(cx: &LockCx, guard: &LockGuard) -> CheckResult {
    let extended = extend(cx, guard, LONG).await?;
    let is_lost = matches!(extended, Err(ExtendError::Lost));
    expect(is_lost, "`Lost`", &extended)?;
    expect(!guard.is_valid(), "a guard that stays invalid", guard)?;
    cx.expect_nothing_left().await
}
