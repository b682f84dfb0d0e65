//! How a holder hears that its lock is lost.

use std::time::Duration;

use futures::future::{Either, select};
use lock_core::{DistributedLockExt, LockGuard, LockRequest, Loss, ReleaseError, WithLockError};

use super::extending::extend;
use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx, TRIES};
use crate::conformance::{CheckResult, Failure, expect};

pub(crate) async fn lost_ends_with_the_validity(cx: &LockCx) -> CheckResult {
    let guard = cx
        .take(cx.lock(), LockRequest::new("k").ttl(250 * MS))
        .await?;
    let loss = cx.ends("`lost()`", guard.lost()).await?;
    expect(
        !guard.is_valid(),
        "an invalid guard when it is lost",
        &guard,
    )?;
    expect(loss == Loss::Expired, "`Expired`", loss)?;
    // A later call ends too.
    cx.ends("`lost()` of a lost lock", guard.lost()).await?;
    Ok(())
}

pub(crate) async fn lost_is_put_off_by_an_extension(cx: &LockCx) -> CheckResult {
    let ttl = 700 * MS;
    for _ in 0..5 {
        let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
        let lost = guard.lost();
        if extend(cx, &guard, LONG).await?.is_err() {
            // The machine was too busy: the lock was rightly lost.
            continue;
        }
        expect_pending(cx, "`lost()` of an extended lock", lost, ttl + 100 * MS).await?;
        drop(guard.release().await);
        return Ok(());
    }
    Err(Failure::new("an extension in time", "none, five times"))
}

pub(crate) async fn lost_never_ends_for_a_released_lock(cx: &LockCx) -> CheckResult {
    for is_dropped in [false, true] {
        lost_is_silent_after_a_release(cx, is_dropped).await?;
    }
    Ok(())
}

async fn lost_is_silent_after_a_release(cx: &LockCx, is_dropped: bool) -> CheckResult {
    let ttl = 300 * MS;
    for _ in 0..5 {
        let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
        let lost = guard.lost();
        let is_in_time = if is_dropped {
            let is_valid = guard.is_valid();
            drop(guard);
            is_valid
        } else {
            guard.release().await.is_ok()
        };
        if is_in_time {
            let what = "`lost()` of a released lock";
            return expect_pending(cx, what, lost, ttl + 100 * MS).await;
        }
        // The machine was too busy: the lock was rightly lost.
    }
    Err(Failure::new("a release in time", "none, five times"))
}

pub(crate) async fn lost_ends_for_a_lock_that_was_released_too_late(cx: &LockCx) -> CheckResult {
    let ttl = 200 * MS;
    for is_dropped in [false, true] {
        let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
        // Nobody polls it before the release, as if the process had stood still.
        let lost = guard.lost();
        cx.runtime().sleep(ttl).await;
        if is_dropped {
            drop(guard);
        } else {
            // Whether nodes still have the key by then depends on the drift of their clocks.
            drop(guard.release().await);
        }
        cx.ends("`lost()` of a lock that was released too late", lost)
            .await?;
    }
    Ok(())
}

pub(crate) async fn a_body_ends_with_its_lock(cx: &LockCx) -> CheckResult {
    let request = LockRequest::new("k").ttl(250 * MS);
    let run = cx.lock().with_lock(request, async |_: &LockGuard| {
        cx.runtime().sleep(LONG).await;
    });
    let ran = cx.ends("a body whose lock is lost", run).await?;
    let is_lost = matches!(ran, Err(WithLockError::Lost(_)));
    expect(is_lost, "`Lost`, and the body dropped", ran)?;
    let mut tries = 0;
    let ran = loop {
        tries += 1;
        let body = async |guard: &LockGuard| guard.is_valid();
        let run = cx.lock().with_lock(long("k"), body);
        match cx.ends("a body", run).await? {
            // On a busy machine too few nodes may answer the release in time.
            Err(WithLockError::NotReleased {
                error: ReleaseError::Unavailable { .. },
                ..
            }) if tries < TRIES => cx.expect_nothing_left().await?,
            ran => break ran,
        }
    };
    expect(matches!(ran, Ok(true)), "what the body returned", ran)?;
    cx.expect_nothing_left().await
}

/// Fails if the future ends in that time.
async fn expect_pending(
    cx: &LockCx,
    what: &str,
    lost: impl Future<Output = Loss> + Unpin,
    time: Duration,
) -> CheckResult {
    match select(lost, std::pin::pin!(cx.sleep(time))).await {
        Either::Left((loss, _)) => Err(Failure::new(
            format!("{what} not to end"),
            format!("{loss:?}"),
        )),
        Either::Right(_) => Ok(()),
    }
}
