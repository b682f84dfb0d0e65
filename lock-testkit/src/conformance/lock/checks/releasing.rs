//! Releasing a lock.

use std::future::poll_fn;
use std::task::Poll;

use lock_core::{LockGuard, LockRequest, ReleaseError};

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, expect};

/// Releases a lock, again after an outage, since none is expected.
pub(super) async fn release(
    cx: &LockCx,
    guard: &LockGuard,
) -> CheckResult<Result<(), ReleaseError>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match cx.ends("a release", guard.release()).await? {
            Err(ReleaseError::Unavailable { .. }) if tries < 20 => cx.sleep(50 * MS).await,
            result => return Ok(result),
        }
    }
}

pub(crate) async fn a_released_lock_is_free_and_leaves_nothing(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    cx.expect_taken(&rival, &long("k")).await?;
    let released = release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    expect(!guard.is_valid(), "a guard that is over", &guard)?;
    drop(cx.ask_for_freed(&rival, &long("k")).await?);
    cx.expect_nothing_left().await
}

pub(crate) async fn a_second_release_has_the_answer_of_the_first(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    for _ in 0..3 {
        let released = release(cx, &guard).await?;
        expect(released.is_ok(), "the answer of the first", &released)?;
    }
    let guard = cx
        .take(cx.lock(), LockRequest::new("k").ttl(150 * MS))
        .await?;
    cx.expect_nothing_left().await?;
    for _ in 0..3 {
        let released = release(cx, &guard).await?;
        let is_right = matches!(released, Err(ReleaseError::NotHeld));
        expect(is_right, "`NotHeld` after the ttl", &released)?;
    }
    Ok(())
}

pub(crate) async fn a_guard_is_invalid_from_the_release_on(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), long("k")).await?;
    {
        let mut releasing = std::pin::pin!(guard.release());
        let polled = poll_fn(|context| Poll::Ready(releasing.as_mut().poll(context))).await;
        expect(!guard.is_valid(), "a guard that is over", (&guard, polled))?;
    }
    // The call is dropped, and the release goes on.
    drop(cx.take(&rival, long("k")).await?);
    cx.expect_nothing_left().await?;
    let released = release(cx, &guard).await?;
    expect(released.is_ok(), "the answer of the first", &released)
}
