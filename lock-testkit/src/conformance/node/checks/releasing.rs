//! Compare-and-delete.

use std::time::Duration;

use lock_core::{Command, Reply, Token};

use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_for, acquire_or_report, release, release_keeping,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::{living, lookalikes};
use crate::conformance::{CheckResult, Failure};

pub(crate) async fn a_release_deletes_its_own_key(cx: &NodeCx) -> CheckResult {
    let (mine, next) = (cx.token(), cx.token());
    cx.expect(&acquire("plain", mine), &Reply::ok()).await?;
    cx.expect(&acquire_or_report("script", mine), &Reply::Int(1))
        .await?;
    let for_ever = Entry::forever(mine.as_bytes());
    cx.bed().put(b"ever", &for_ever).await?;
    for key in ["plain", "script", "ever"] {
        cx.expect(&release(key, mine), &Reply::Int(1)).await?;
        cx.expect_entry(key, &Entry::Missing).await?;
        cx.expect(&acquire(key, next), &Reply::ok()).await?;
    }
    Ok(())
}

pub(crate) async fn a_second_release_finds_no_key(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    cx.expect(&release("k", mine), &Reply::Int(0)).await?;
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    cx.expect(&release("k", mine), &Reply::Int(1)).await?;
    cx.expect(&release("k", mine), &Reply::Int(0)).await?;
    cx.expect_keys(&[]).await
}

/// Above all the key of a successor that came after the lock was lost.
pub(crate) async fn a_release_leaves_the_key_of_another_alone(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let mut values = lookalikes(mine);
    values.extend([cx.token().as_bytes().to_vec(), b"foreign".to_vec()]);
    for value in values {
        for held in [Entry::forever(value.as_slice()), living(value, TTL)] {
            let since = cx.prepare("k", &held).await?;
            for keep in [Duration::ZERO, TTL / 2, TTL * 2] {
                let release = release_keeping("k", mine, keep);
                cx.expect(&release, &Reply::Int(-1)).await?;
                cx.expect_aged("k", &held, since).await?;
            }
        }
    }
    Ok(())
}

pub(crate) async fn a_release_leaves_a_key_of_another_type_alone(cx: &NodeCx) -> CheckResult {
    cx.bed().put(b"k", &Entry::OtherType).await?;
    for keep in [Duration::ZERO, TTL] {
        let release = release_keeping("k", cx.token(), keep);
        cx.expect(&release, &Reply::Int(-1)).await?;
        cx.expect_entry("k", &Entry::OtherType).await?;
    }
    Ok(())
}

/// Keys have nothing to do with each other.
pub(crate) async fn a_release_deletes_no_other_key_of_the_same_token(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    for key in ["k", "kk", "K", "other"] {
        cx.expect(&acquire(key, mine), &Reply::ok()).await?;
    }
    cx.expect(&release("k", mine), &Reply::Int(1)).await?;
    cx.expect_keys(&[b"kk", b"K", b"other"]).await
}

pub(crate) async fn a_release_that_keeps_cuts_a_longer_life(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    for keep in [TTL / 2, TTL / 3] {
        let since = cx.now();
        cx.expect(&release_keeping("k", mine, keep), &Reply::Int(1))
            .await?;
        cx.expect_aged("k", &living(mine.as_bytes(), keep), since)
            .await?;
    }
    cx.expect(&acquire("k", cx.token()), &Reply::Nil).await
}

pub(crate) async fn a_release_that_keeps_never_lengthens_a_life(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let since = cx.now();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    for keep in [TTL * 2, TTL + Duration::from_millis(1)] {
        cx.expect(&release_keeping("k", mine, keep), &Reply::Int(1))
            .await?;
        cx.expect_aged("k", &living(mine.as_bytes(), TTL), since)
            .await?;
    }
    Ok(())
}

pub(crate) async fn a_release_that_keeps_creates_no_key(cx: &NodeCx) -> CheckResult {
    let keep = release_keeping("k", cx.token(), TTL);
    cx.expect(&keep, &Reply::Int(0)).await?;
    cx.expect_keys(&[]).await
}

pub(crate) async fn a_begun_millisecond_is_kept_as_a_whole_one(cx: &NodeCx) -> CheckResult {
    expect_whole_millis_kept(cx, |token, keep| release_keeping("k", token, keep)).await
}

/// Fails if the key `k`, kept for a little more than 300 s, would be gone after 300 s.
///
/// The one extra millisecond shows only if almost no time passes between the release and the look, so
/// this may take several tries.
pub(super) async fn expect_whole_millis_kept(
    cx: &NodeCx,
    keeping: impl Fn(Token, Duration) -> Command,
) -> CheckResult {
    const TRIES: usize = 2000;
    let whole = Duration::from_secs(300);
    let mut longest = Duration::ZERO;
    for _ in 0..TRIES {
        let mine = cx.token();
        cx.expect(&acquire_for("k", mine, TTL), &Reply::ok())
            .await?;
        cx.reply(&keeping(mine, whole + Duration::from_nanos(1)))
            .await?;
        longest = longest.max(cx.lifetime("k").await?);
        if longest > whole {
            return crate::conformance::expect(
                longest <= whole + Duration::from_millis(1),
                "a key that is kept for 300001 ms",
                longest,
            );
        }
        cx.expect(&release("k", mine), &Reply::Int(1)).await?;
    }
    Err(Failure::new(
        "a key that was to be kept for 300000.000001 ms to live for 300001 ms",
        format!("at most {} ms, in {TRIES} tries", longest.as_millis()),
    ))
}
