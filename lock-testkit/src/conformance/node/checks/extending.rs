//! Compare-and-extend.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Reply, Token};

use super::concurrency::at_once;
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_for, extend, extend_all, extended, release,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::{living, lookalikes};
use crate::conformance::{CheckResult, Failure, expect_eq};

pub(crate) async fn an_extension_lengthens_the_life_of_its_own_key(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    for times in [2, 3, 50] {
        let since = cx.now();
        cx.expect(&extend("k", mine, TTL * times), &extended(1))
            .await?;
        cx.expect_aged("k", &living(mine.as_bytes(), TTL * times), since)
            .await?;
    }
    Ok(())
}

/// So an extension that fails at other nodes takes nothing away at this one.
pub(crate) async fn an_extension_never_shortens_a_life(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let since = cx.now();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    for shorter in [TTL / 2, Duration::from_millis(1)] {
        cx.expect(&extend("k", mine, shorter), &extended(1)).await?;
        cx.expect_aged("k", &living(mine.as_bytes(), TTL), since)
            .await?;
    }
    Ok(())
}

pub(crate) async fn an_extension_revives_no_missing_key(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    cx.expect(&extend("never", mine, TTL), &extended(0)).await?;
    cx.expect_entry("never", &Entry::Missing).await?;

    cx.expect(&acquire("released", mine), &Reply::ok()).await?;
    cx.expect(&release("released", mine), &Reply::Int(1))
        .await?;
    cx.expect(&extend("released", mine, TTL), &extended(0))
        .await?;
    cx.expect_entry("released", &Entry::Missing).await?;

    let brief = acquire_for("expired", mine, Duration::from_millis(5));
    cx.expect(&brief, &Reply::ok()).await?;
    let missing = |entry: &Entry| *entry == Entry::Missing;
    cx.eventually("the key to expire", "expired", missing)
        .await?;
    cx.expect(&extend("expired", mine, TTL), &extended(0))
        .await?;
    cx.expect_keys(&[]).await
}

pub(crate) async fn an_extension_leaves_the_key_of_another_alone(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let mut values = lookalikes(mine);
    values.extend([cx.token().as_bytes().to_vec(), b"foreign".to_vec()]);
    for value in values {
        for held in [Entry::forever(value.as_slice()), living(value, TTL)] {
            let since = cx.prepare("k", &held).await?;
            cx.expect(&extend("k", mine, TTL * 2), &extended(-1))
                .await?;
            cx.expect_aged("k", &held, since).await?;
        }
    }
    Ok(())
}

pub(crate) async fn an_extension_leaves_a_key_of_another_type_alone(cx: &NodeCx) -> CheckResult {
    cx.bed().put(b"k", &Entry::OtherType).await?;
    cx.expect(&extend("k", cx.token(), TTL), &extended(-1))
        .await?;
    cx.expect_entry("k", &Entry::OtherType).await
}

/// Each entry has its own token and its own lifetime, and one that fails does not stop the others.
pub(crate) async fn an_extension_of_many_answers_for_each_in_order(cx: &NodeCx) -> CheckResult {
    let (a, b, other) = (cx.token(), cx.token(), cx.token());
    for (key, token) in [("a", a), ("b", b), ("other", other), ("late", a)] {
        cx.expect(&acquire(key, token), &Reply::ok()).await?;
    }
    cx.bed().put(b"hash", &Entry::OtherType).await?;
    let long = TTL * 4;
    let since = cx.now();
    let all = extend_all([
        (b"hash".as_slice(), a, long),
        (b"b", b, TTL * 3),
        (b"missing", a, long),
        (b"a", a, TTL * 2),
        (b"other", a, long),
        // The tokens of other entries in the same call do not count.
        (b"a", b, long),
        (b"late", a, Duration::from_millis(1)),
    ]);
    let answers = [-1, 1, 0, 1, -1, -1, 1].map(Reply::Int).to_vec();
    cx.expect(&all, &Reply::Array(answers)).await?;
    for (key, token, ttl) in [("a", a, TTL * 2), ("b", b, TTL * 3)] {
        cx.expect_aged(key, &living(token.as_bytes(), ttl), since)
            .await?;
    }
    for (key, token) in [("other", other), ("late", a)] {
        let left = cx.lifetime(key).await?;
        cx.expect_held(key, token).await?;
        let what = format!("{key:?} to live at most {} ms", TTL.as_millis());
        crate::conformance::expect(left <= TTL, &what, left)?;
    }
    cx.expect_entry("missing", &Entry::Missing).await
}

pub(crate) async fn an_extension_of_nothing_is_answered_with_nothing(cx: &NodeCx) -> CheckResult {
    cx.expect(&extend_all([]), &Reply::Array(Vec::new()))
        .await?;
    cx.expect_keys(&[]).await
}

pub(crate) async fn an_extension_of_500_reaches_each(cx: &NodeCx) -> CheckResult {
    let entries: Vec<(Vec<u8>, Token)> = (0..500)
        .map(|n| (format!("k{n}").into_bytes(), cx.token()))
        .collect();
    // The answer that is expected, by the entry's number.
    let answer = |n: usize| match n {
        n if n % 7 == 3 => 0,
        n if n % 11 == 5 => -1,
        _ => 1,
    };
    let holders = (entries.iter().enumerate()).filter(|(n, _)| answer(*n) != 0);
    let acquires = holders.map(|(n, (key, token))| {
        let holder = if answer(n) == 1 { *token } else { cx.token() };
        (Arc::clone(cx.node()), acquire(key, holder))
    });
    for reply in at_once(cx, acquires).await? {
        expect_eq("the reply to an acquire", &Reply::ok(), &reply)?;
    }

    let asked = entries
        .iter()
        .map(|(key, token)| (key.as_slice(), *token, TTL * 2));
    let Reply::Array(answers) = cx.reply(&extend_all(asked)).await? else {
        return Err(Failure::new("an array of answers", "none"));
    };
    expect_eq("the number of answers", &500, &answers.len())?;
    for (n, found) in answers.iter().enumerate() {
        let what = format!("the answer for entry {n} of 500");
        expect_eq(&what, &Reply::Int(answer(n)), found)?;
    }
    for (n, (key, _)) in entries.iter().enumerate() {
        if answer(n) == 0 {
            cx.expect_entry(key, &Entry::Missing).await?;
            continue;
        }
        let left = cx.lifetime(key).await?;
        let what = format!("key {n} of 500 to be extended as it was answered");
        crate::conformance::expect((answer(n) == 1) == (left > TTL), &what, left)?;
    }
    Ok(())
}
