//! Acquire and release.

use lock_core::DistributedLockExt;

use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure};

pub(crate) async fn a_released_lock_is_free_and_leaves_nothing(cx: &LockCx) -> CheckResult {
    let failed = |error: &dyn std::error::Error| Failure::new("a free lock", error.to_string());
    let guard = cx.lock().lock("k").await.map_err(|error| failed(&error))?;
    guard.release().await.map_err(|error| failed(&error))?;
    cx.expect_nothing_left().await?;
    let rival = cx.rival().await?;
    let guard = rival.try_lock("k").await.map_err(|error| failed(&error))?;
    crate::conformance::expect(guard.is_some(), "a free lock", guard)
}
