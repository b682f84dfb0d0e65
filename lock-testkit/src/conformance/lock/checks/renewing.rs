//! Locks that are extended automatically.

use lock_core::LockRequest;

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, expect};

fn renewed() -> LockRequest {
    LockRequest::new("k").ttl(1_500 * MS).auto_extend(true)
}

pub(crate) async fn an_automatic_extension_keeps_the_lock(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), renewed().ttl(3_000 * MS)).await?;
    for _ in 0..20 {
        cx.sleep(400 * MS).await;
        // On a machine that stands still for a whole ttl it is rightly lost.
        let is_valid = guard.is_valid();
        expect(is_valid, "a guard that stays valid", &guard)?;
        cx.expect_taken(&rival, &long("k")).await?;
    }
    drop(guard.release().await);
    cx.expect_nothing_left().await
}

pub(crate) async fn an_automatic_extension_ends_with_its_guard(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    for is_dropped in [false, true] {
        let guard = cx.take(cx.lock(), renewed()).await?;
        cx.sleep(600 * MS).await;
        if is_dropped {
            drop(guard);
        } else {
            drop(guard.release().await);
        }
        cx.expect_nothing_left().await?;
        cx.sleep(1_000 * MS).await;
        cx.expect_nothing_left().await?;
        drop(cx.take(&rival, long("k")).await?);
    }
    Ok(())
}

pub(crate) async fn an_automatic_extension_ends_after_max_hold(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), renewed().max_hold(500 * MS)).await?;
    cx.ends("`lost()` of a forgotten guard", guard.lost())
        .await?;
    expect(!guard.is_valid(), "an invalid guard", &guard)
}
