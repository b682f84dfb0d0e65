//! Acquiring with a wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use lock_core::{AcquireError, Contended, LockRequest};

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure, expect};

pub(crate) async fn a_wait_ends_when_the_holder_releases(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let rival = cx.rival().await?;
    let waiting = cx.spawn(async move { Ok(rival.acquire(&long("k").max_wait(None)).await) });
    cx.sleep(60 * MS).await;
    expect(guard.is_valid(), "the holder to be left alone", &guard)?;
    let released = super::releasing::release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    let acquired = cx.ends("a wait for a free lock", waiting.join()).await??;
    let is_held = acquired.as_ref().is_ok_and(|guard| guard.is_valid());
    expect(is_held, "the lock for who waited for it", &acquired)
}

pub(crate) async fn a_wait_outlasts_a_holder_that_never_releases(cx: &LockCx) -> CheckResult {
    let holder = cx
        .take(cx.lock(), LockRequest::new("k").ttl(300 * MS))
        .await?;
    let rival = cx.rival().await?;
    let request = long("k").max_wait(None);
    let acquired = cx
        .ends("a wait without limit", rival.acquire(&request))
        .await?;
    let is_held = acquired.as_ref().is_ok_and(|guard| guard.is_valid());
    expect(is_held, "the lock after its holder's ttl", &acquired)?;
    expect(
        !holder.is_valid(),
        "the old holder's guard to be over",
        &holder,
    )
}

pub(crate) async fn a_wait_of_zero_tries_once(cx: &LockCx) -> CheckResult {
    let request = long("k").max_wait(Duration::ZERO);
    let guard = cx.wait(cx.lock(), &request).await?;
    expect(guard.is_ok(), "a free lock without a wait", &guard)?;
    let rival = cx.rival().await?;
    let contended = contended(cx.wait(&rival, &request).await?)?;
    expect(contended.attempts == 1, "one attempt", &contended)
}

pub(crate) async fn a_wait_in_vain_says_how_long_it_was(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let rival = cx.rival().await?;
    let max_wait = 200 * MS;
    let request = long("k").max_wait(max_wait);
    let mut attempt = 0;
    let (contended, took) = loop {
        let start = cx.now();
        let waited = cx.ends("a wait", rival.acquire(&request)).await?;
        let took = cx.now().saturating_sub(start);
        attempt += 1;
        // Its nodes may have been too busy to answer, which is another answer.
        if !matches!(waited, Err(AcquireError::Unavailable(_))) || attempt == 10 {
            break (contended(waited)?, took);
        }
    };
    let text = format!("{contended}");
    expect(
        contended.waited >= max_wait / 2,
        "a wait of at least half of `max_wait`: the last attempt comes shortly before its end",
        &contended,
    )?;
    expect(
        contended.waited <= took,
        "no more than the wait that there was",
        (&contended, took),
    )?;
    expect(contended.attempts >= 1, "a number of attempts", &contended)?;
    expect(!text.is_empty(), "a text of the error", &text)?;
    expect(guard.is_valid(), "the holder to be left alone", &guard)
}

pub(crate) async fn a_shorter_wait_ends_before_a_longer_one(cx: &LockCx) -> CheckResult {
    let _guard = cx.take(cx.lock(), long("k")).await?;
    let (one, other) = (cx.rival().await?, cx.rival().await?);
    let (short, long) = (
        long("k").max_wait(100 * MS),
        long("k").max_wait(20_000 * MS),
    );
    let shorter = pin!(cx.ends("a wait of 100 ms", one.acquire(&short)));
    let longer = pin!(other.acquire(&long));
    match select(shorter, longer).await {
        // On a busy machine the nodes may not have answered.
        Either::Left((Ok(Err(AcquireError::Contended(_) | AcquireError::Unavailable(_))), _)) => {
            Ok(())
        }
        Either::Left((shorter, _)) => Err(Failure::new("`Contended`", format!("{:?}", shorter?))),
        Either::Right((longer, _)) => Err(Failure::new(
            "a wait of 100 ms to end before one of 20 s",
            format!("that one ended first: {longer:?}"),
        )),
    }
}

pub(crate) async fn a_wait_gives_up_when_the_lock_is_held(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let request = long("k").max_wait(Duration::from_secs(10));
    let giving_up = long("k")
        .max_wait(Duration::from_secs(20))
        .fail_if_held(true);
    let guard = cx.wait(cx.lock(), &giving_up).await?;
    expect(
        guard.is_ok(),
        "a free lock for who gives up when held",
        &guard,
    )?;
    let waiting = Arc::clone(cx.lock());
    let first = pin!(async { contended(cx.wait(&rival, &giving_up).await?) });
    let longer = pin!(waiting.acquire(&request));
    match select(first, longer).await {
        Either::Left((contended, _)) => contended.map(drop),
        Either::Right((longer, _)) => Err(Failure::new(
            "an end before that of a wait of 10 s",
            format!("that one ended first: {longer:?}"),
        )),
    }
}

fn contended<T: std::fmt::Debug>(result: Result<T, AcquireError>) -> CheckResult<Contended> {
    match result {
        Err(AcquireError::Contended(contended)) => Ok(contended),
        other => Err(Failure::new("`Contended`", format!("{other:?}"))),
    }
}
