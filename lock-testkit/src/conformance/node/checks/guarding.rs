//! The restart guard: a server that may have forgotten locks grants none before they have ended.

use std::time::Duration;

use lock_core::{Command, Reply};

use super::scripts::expect_set_denied;
use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_fenced, bootstrap, counter_of, guarded,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::living;
use crate::conformance::{CheckResult, Failure, expect};

/// The key of the guard.
const GUARD: &str = "guard";

/// How long a quarantine is that a check waits for.
const SHORT: Duration = Duration::from_millis(300);

/// An acquire of each kind.
fn acquires(cx: &NodeCx, quarantine: Duration) -> [Command; 3] {
    let fenced = acquire_fenced(&["k"], cx.token(), 0);
    let several = acquire_fenced(&["k", "l"], cx.token(), 0);
    [acquire("k", cx.token()), fenced, several].map(|acquire| guarded(&acquire, GUARD, quarantine))
}

/// Fails unless the server says that it is in quarantine. Returns for how much longer.
async fn expect_quarantine(cx: &NodeCx, command: &Command) -> CheckResult<Duration> {
    let error = cx.expect_error(command, LONG).await?;
    let words = error.to_string();
    let left = words.split(' ').nth(1).and_then(|word| word.parse().ok());
    match (error.code(), left) {
        (Some("QUARANTINE"), Some(left)) => Ok(Duration::from_millis(left)),
        _ => Err(Failure::new(
            "the error QUARANTINE and how many ms are left",
            words,
        )),
    }
}

/// Fails unless there is nothing but the guard, which lives for ever.
async fn expect_guard_alone(cx: &NodeCx) -> CheckResult {
    cx.expect_keys(&[GUARD.as_bytes()]).await?;
    let found = cx.bed().look(GUARD.as_bytes()).await?;
    let lives_for_ever = matches!(&found, Entry::Value { ttl: None, .. });
    expect(lives_for_ever, "a guard without an expiry", &found)
}

pub(crate) async fn a_server_without_a_guard_grants_nothing_before_its_quarantine_is_over(
    cx: &NodeCx,
) -> CheckResult {
    let began = cx.now();
    for acquire in acquires(cx, SHORT) {
        expect_quarantine(cx, &acquire).await?;
        expect_guard_alone(cx).await?;
    }
    let mine = cx.token();
    let acquire = guarded(&acquire("k", mine), GUARD, SHORT);
    while cx.send(&acquire).await.is_err() {
        let waited = cx.now().saturating_sub(began);
        expect(waited < LONG, "an end of the quarantine", "none")?;
        cx.sleep(SHORT / 10).await;
    }
    let waited = cx.now().saturating_sub(began);
    // Clocks of whole milliseconds.
    let least = SHORT - Duration::from_millis(2);
    expect(waited >= least, "the whole quarantine", waited)?;
    cx.expect_held("k", mine).await
}

pub(crate) async fn a_server_that_was_bootstrapped_grants_at_once(cx: &NodeCx) -> CheckResult {
    let bootstrap = bootstrap(GUARD, TTL);
    cx.expect(&bootstrap, &Reply::Int(1)).await?;
    expect_guard_alone(cx).await?;
    cx.expect(&bootstrap, &Reply::Int(0)).await?;
    let mine = cx.token();
    let since = cx.now();
    let by_script = guarded(&acquire("k", mine), GUARD, TTL);
    cx.expect(&by_script, &Reply::Int(1)).await?;
    let held = living(mine.as_bytes(), TTL);
    cx.expect_aged("k", &held, since).await?;
    // A refusal tells the holder, as without a guard.
    for other in acquires(cx, TTL) {
        cx.expect_told_by(&other, &held, since).await?;
    }
    let fenced = guarded(&acquire_fenced(&["l"], cx.token(), 0), GUARD, TTL);
    match cx.reply(&fenced).await? {
        Reply::Int(2..) => {}
        other => return Err(Failure::new("a fencing token", format!("{other:?}"))),
    }
    cx.expect_keys(&[GUARD.as_bytes(), b"k", b"l", counter_of("l").as_bytes()])
        .await
}

pub(crate) async fn a_bootstrap_ends_no_quarantine(cx: &NodeCx) -> CheckResult {
    let [acquire, ..] = acquires(cx, TTL);
    expect_quarantine(cx, &acquire).await?;
    cx.expect(&bootstrap(GUARD, TTL), &Reply::Int(0)).await?;
    expect_quarantine(cx, &acquire).await?;
    expect_guard_alone(cx).await
}

/// As behind a failover, or a restart with old data.
pub(crate) async fn a_guard_of_another_run_is_a_quarantine(cx: &NodeCx) -> CheckResult {
    let guard = Entry::forever(format!("{} 0 1", "a".repeat(40)));
    for acquire in acquires(cx, TTL) {
        cx.bed().put(GUARD.as_bytes(), &guard).await?;
        let left = expect_quarantine(cx, &acquire).await?;
        expect(left <= TTL, "at most the quarantine", left)?;
        expect_guard_alone(cx).await?;
    }
    Ok(())
}

/// Of a server that did not tell its run, or does not.
pub(crate) async fn a_guard_without_a_run_is_taken_over(cx: &NodeCx) -> CheckResult {
    let guard = Entry::forever("- 0 1");
    cx.bed().put(GUARD.as_bytes(), &guard).await?;
    let mine = cx.token();
    let acquire = guarded(&acquire("k", mine), GUARD, TTL);
    cx.expect(&acquire, &Reply::Int(1)).await
}

/// Processes may ask for different ones, and clocks may be set back.
pub(crate) async fn a_quarantine_is_the_longest_that_was_asked_for_and_never_longer(
    cx: &NodeCx,
) -> CheckResult {
    let long = TTL.as_millis();
    for (asked, ends, quarantine, expected) in [
        (long, 0, TTL / 2, TTL),
        (1, 0, TTL, TTL),
        (1, u64::from(u32::MAX) * 1000, TTL, TTL),
    ] {
        let run = if ends == 0 { "a" } else { "-" };
        let guard = Entry::forever(format!("{run} {ends} {asked}"));
        cx.bed().put(GUARD.as_bytes(), &guard).await?;
        let [acquire, ..] = acquires(cx, quarantine);
        let left = expect_quarantine(cx, &acquire).await?;
        let is_expected = left <= expected && left > expected / 2;
        expect(is_expected, &format!("{expected:?}"), left)?;
    }
    // One that has begun already grows by what it was too short.
    cx.bed().put(GUARD.as_bytes(), &Entry::Missing).await?;
    let [short, ..] = acquires(cx, SHORT);
    expect_quarantine(cx, &short).await?;
    let [longer, ..] = acquires(cx, TTL);
    for acquire in [longer, short] {
        let left = expect_quarantine(cx, &acquire).await?;
        expect(left <= TTL && left > TTL / 2, &format!("{TTL:?}"), left)?;
    }
    Ok(())
}

pub(crate) async fn a_guard_that_is_none_is_an_error_and_nothing_is_set(
    cx: &NodeCx,
) -> CheckResult {
    let mut wrong = vec![Entry::OtherType];
    wrong.extend(["", "1", "a b c", "a 1 2 3", "a -1 2"].map(Entry::forever));
    for guard in wrong {
        for acquire in acquires(cx, TTL) {
            cx.bed().put(GUARD.as_bytes(), &guard).await?;
            let error = cx.expect_error(&acquire, LONG).await?;
            let is_told = error.code() == Some("WRONGTYPE");
            expect(is_told, "WRONGTYPE", &error)?;
            cx.expect_keys(&[GUARD.as_bytes()]).await?;
        }
    }
    Ok(())
}

pub(crate) async fn a_guard_that_may_not_be_set_is_an_error(cx: &NodeCx) -> CheckResult {
    for command in acquires(cx, TTL).iter().chain([&bootstrap(GUARD, TTL)]) {
        expect_set_denied(cx, command).await?;
    }
    Ok(())
}
