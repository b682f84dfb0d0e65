//! Guards that are dropped.

use std::panic::resume_unwind;

use lock_core::LockRequest;

use super::{MS, long};
use crate::conformance::lock::cx::{LockCx, on_a_thread};
use crate::conformance::{CheckResult, Failure, expect};

/// Fails unless a rival gets the lock, of which nothing is left afterwards.
async fn expect_free(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    drop(cx.take(&rival, long("k")).await?);
    cx.expect_nothing_left().await
}

pub(crate) async fn a_dropped_guard_frees_the_lock(cx: &LockCx) -> CheckResult {
    for _ in 0..5 {
        drop(cx.take(cx.lock(), long("k")).await?);
        expect_free(cx).await?;
    }
    Ok(())
}

pub(crate) async fn a_guard_may_be_dropped_on_a_plain_thread(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let is_quiet = on_a_thread(move || drop(guard));
    expect(is_quiet, "no panic", "one, outside any runtime")?;
    expect_free(cx).await
}

pub(crate) async fn a_guard_dropped_by_a_panic_frees_the_lock(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let is_quiet = on_a_thread(move || {
        let _guard = guard;
        // Without the panic hook, which would print it.
        resume_unwind(Box::new("a panic of the holder's"));
    });
    expect(!is_quiet, "the holder's panic to come through", "none")?;
    expect_free(cx).await
}

pub(crate) async fn a_guard_may_outlive_its_runtime(cx: &LockCx) -> CheckResult {
    let lock = cx.rival().await?;
    let request = LockRequest::new("k").ttl(1_000 * MS);
    let guard = cx.on_another_runtime(async {
        let guard = lock.acquire(&request).await;
        guard.map_err(|error| {
            let error = crate::conformance::failure::chain(&error);
            Failure::new("a free lock", error)
        })
    })?;
    // It can be looked at, released and dropped, whatever comes of that.
    let looked_at = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guard.is_valid()));
    expect(looked_at.is_ok(), "no panic", "one, when it was looked at")?;
    let is_quiet = on_a_thread(move || drop(guard));
    expect(is_quiet, "no panic", "one, when the guard was dropped")?;
    drop(lock);
    // At the latest by the ttl.
    expect_free(cx).await
}

pub(crate) async fn a_lock_serves_several_runtimes(cx: &LockCx) -> CheckResult {
    let lock = cx.rival().await?;
    for _ in 0..3 {
        cx.on_another_runtime(async {
            let request = long("k").max_wait(20_000 * MS);
            let guard = lock.acquire(&request).await;
            let guard = guard.map_err(|error| {
                let error = crate::conformance::failure::chain(&error);
                Failure::new("a lock that works on each runtime", error)
            })?;
            drop(guard.release().await);
            Ok(())
        })?;
    }
    Ok(())
}
