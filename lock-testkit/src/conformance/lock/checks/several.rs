//! Several resources in one request.

use lock_core::LockRequest;

use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::{CheckResult, expect};

fn all(resources: &[&str]) -> LockRequest {
    LockRequest::many(resources).ttl(LONG)
}

pub(crate) async fn several_resources_are_all_locked(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx.take(cx.lock(), all(&["b", "a", "c"])).await?;
    for resource in ["a", "b", "c"] {
        cx.expect_taken(&rival, &long(resource)).await?;
    }
    drop(guard.release().await);
    cx.expect_nothing_left().await
}

pub(crate) async fn of_several_resources_none_is_kept_if_one_is_taken(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let held = cx.take(&rival, long("b")).await?;
    for request in [all(&["a", "b"]), all(&["b", "c"])] {
        cx.expect_taken(cx.lock(), &request).await?;
    }
    drop(cx.take(cx.lock(), all(&["a", "c"])).await?);
    drop(held.release().await);
    cx.expect_nothing_left().await
}

pub(crate) async fn names_of_several_resources_are_never_joined(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guards = [
        cx.take(cx.lock(), all(&["a", "bc"])).await?,
        cx.take(&rival, all(&["ab", "c"])).await?,
        cx.take(&rival, long("abc")).await?,
    ];
    expect(
        guards.iter().all(|guard| guard.is_valid()),
        "three guards",
        &guards,
    )
}

pub(crate) async fn crossing_requests_for_several_resources_end(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let rounds = |lock, names: [&'static str; 2]| async move {
        for _ in 0..10 {
            let guard = cx.take(lock, all(&names)).await?;
            cx.sleep(MS).await;
            drop(guard.release().await);
        }
        CheckResult::Ok(())
    };
    let both = futures::future::join(rounds(cx.lock(), ["a", "b"]), rounds(&rival, ["b", "a"]));
    let (one, other) = cx.all_end("two that cross", both).await?;
    one.and(other)
}
