//! One holder at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{AcquireError, DistributedLock, InvalidInput, LockRequest, RetryPolicy};

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure, expect, expect_eq, failure};

/// Lets a few contenders wait no longer than necessary.
pub(super) fn eager(request: LockRequest) -> LockRequest {
    let retry = RetryPolicy::new().delay(2 * MS).max_delay(40 * MS);
    request.retry(retry).max_wait(None)
}

/// Lets many contenders wait longer, since their attempts alone would keep a machine busy.
pub(super) fn patient(request: LockRequest) -> LockRequest {
    let retry = RetryPolicy::new().delay(5 * MS).max_delay(300 * MS);
    request.retry(retry).max_wait(None)
}

/// Adds one to a number in a way that only one holder at a time may: reads it, waits, writes it.
pub(super) async fn count_up(
    lock: Arc<dyn DistributedLock>,
    runtime: Arc<dyn lock_core::Runtime>,
    count: Arc<AtomicU64>,
) -> CheckResult<String> {
    let request = patient(long("counter"));
    let failed = |error: &(dyn std::error::Error + 'static)| {
        crate::conformance::Failure::new("a turn at the lock", failure::chain(error))
    };
    let guard = lock.acquire(&request).await.map_err(|e| failed(&e))?;
    let before = count.load(Ordering::SeqCst);
    runtime.sleep(MS).await;
    count.store(before + 1, Ordering::SeqCst);
    let token = guard.token().to_owned();
    drop(guard.release().await);
    Ok(token)
}

pub(crate) async fn a_hundred_contenders_lose_no_update(cx: &LockCx) -> CheckResult {
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let lock = cx.rival().await?;
        for _ in 0..20 {
            let (lock, runtime) = (Arc::clone(&lock), Arc::clone(cx.runtime()));
            tasks.push(cx.spawn(count_up(lock, runtime, Arc::clone(&count))));
        }
    }
    let mut tokens = HashSet::new();
    let all = async {
        for task in tasks {
            tokens.insert(task.join().await?);
        }
        CheckResult::Ok(())
    };
    cx.all_end("the turns of a hundred contenders", all)
        .await??;
    expect_eq("the counter", &100, &count.load(Ordering::SeqCst))?;
    expect_eq("tokens of a hundred acquisitions", &100, &tokens.len())
}

pub(crate) async fn a_guard_is_invalid_before_the_next_one_is_given(cx: &LockCx) -> CheckResult {
    let rivals = [Arc::clone(cx.lock()), cx.rival().await?, cx.rival().await?];
    // No holder releases: each waits for the end of the one before.
    let request = eager(LockRequest::new("k").ttl(150 * MS));
    let mut guards = Vec::<lock_core::LockGuard>::new();
    for round in 0..6 {
        let guard = cx.take(&rivals[round % 3], request.clone()).await?;
        let valid = guards.iter().filter(|guard| guard.is_valid()).count();
        expect_eq("guards still valid when the next is given", &0, &valid)?;
        guards.push(guard);
    }
    Ok(())
}

pub(crate) async fn each_acquisition_has_a_token_of_its_own(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let mut tokens = HashSet::new();
    for round in 0..10 {
        for lock in [cx.lock(), &rival] {
            for name in ["a".to_owned(), format!("b-{round}")] {
                let guard = cx.take(lock, long(name)).await?;
                let is_new = tokens.insert(guard.token().to_owned());
                expect(is_new, "a new token", guard.token())?;
                drop(guard.release().await);
            }
        }
    }
    Ok(())
}

/// Whoever asks for a fencing token gets one, or is told that there is none.
pub(crate) async fn a_fencing_token_grows_or_is_refused(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let request = long("k").fencing(true);
    let mut largest = None;
    for lock in [cx.lock(), &rival, cx.lock()] {
        let guard = match cx.wait(lock, &request).await? {
            Err(AcquireError::Invalid(InvalidInput::FencingUnsupported)) if largest.is_none() => {
                return Ok(());
            }
            taken => {
                taken.map_err(|error| Failure::new("a guard or a refusal", error.to_string()))?
            }
        };
        let token = guard.fencing_token();
        let is_larger = token > largest;
        expect(is_larger, "a larger fencing token than before", token)?;
        largest = token;
        drop(guard.release().await);
    }
    let plain = cx.take(cx.lock(), long("plain").fencing(false)).await?;
    let token = plain.fencing_token();
    expect_eq("the token of a lock without fencing", &None, &token)
}

pub(crate) async fn the_holder_is_kept_out_like_anybody_else(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    cx.expect_taken(cx.lock(), &long("k")).await?;
    let request = long("k").max_wait(Duration::from_millis(100));
    let waited = cx.wait(cx.lock(), &request).await?;
    let is_kept_out = matches!(waited, Err(lock_core::AcquireError::Contended(_)));
    expect(is_kept_out, "`Contended` for the holder itself", waited)?;
    expect(guard.is_valid(), "the first guard to stay valid", &guard)
}
