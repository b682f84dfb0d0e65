//! Several keys in one step: all are set, or none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Reply, Token};

use super::concurrency::{at_once, nodes};
use super::releasing::expect_whole_millis_kept;
use super::scripts::{expect_script_errors, expect_set_denied};
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_all, acquire_all_for, acquire_for, answers, release_all,
    release_all_keeping,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::{living, lookalikes};
use crate::conformance::{CheckResult, expect};

/// A lifetime that is not a whole number of seconds.
const ODD: Duration = Duration::from_millis(600_567);

pub(crate) async fn several_free_keys_are_set_with_the_lifetime(cx: &NodeCx) -> CheckResult {
    for keys in [vec!["c", "a", "b"], vec!["one"]] {
        let mine = cx.token();
        let since = cx.now();
        cx.expect(&acquire_all_for(&keys, mine, ODD), &Reply::Int(1))
            .await?;
        for key in keys {
            cx.expect_aged(key, &living(mine.as_bytes(), ODD), since)
                .await?;
        }
    }
    cx.expect_keys(&[b"a", b"b", b"c", b"one"]).await
}

/// Wherever the taken key is among the keys, and whatever it holds.
pub(crate) async fn of_several_keys_none_is_set_if_one_is_taken(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let mut values = lookalikes(mine);
    values.extend([cx.token().as_bytes().to_vec(), b"foreign".to_vec()]);
    let mut found = vec![Entry::OtherType];
    for value in values {
        found.extend([Entry::forever(value.as_slice()), living(value, TTL)]);
    }
    let keys = ["a", "b", "c"];
    for taken in &found {
        for key in keys {
            let since = cx.prepare(key, taken).await?;
            let asked = acquire_all_for(&keys, mine, TTL * 2);
            cx.expect_told_by(&asked, taken, since).await?;
            cx.expect_aged(key, taken, since).await?;
            cx.expect_keys(&[key.as_bytes()]).await?;
            cx.bed().put(key.as_bytes(), &Entry::Missing).await?;
        }
    }
    Ok(())
}

/// The keys that already have its token are not touched either.
pub(crate) async fn several_that_are_refused_leave_their_own_keys_alone(
    cx: &NodeCx,
) -> CheckResult {
    let mine = cx.token();
    let foreign = Entry::forever("foreign");
    let since = cx.now();
    cx.expect(&acquire("own", mine), &Reply::ok()).await?;
    cx.bed().put(b"foreign", &foreign).await?;
    for keys in [["own", "free", "foreign"], ["foreign", "free", "own"]] {
        for ttl in [TTL / 2, TTL * 2] {
            let asked = acquire_all_for(&keys, mine, ttl);
            cx.expect_told_by(&asked, &foreign, since).await?;
            cx.expect_aged("own", &living(mine.as_bytes(), TTL), since)
                .await?;
            cx.expect_entry("foreign", &foreign).await?;
            cx.expect_keys(&[b"own", b"foreign"]).await?;
        }
    }
    Ok(())
}

/// This is the first in the order of the call, which is not that of the names.
pub(crate) async fn the_first_of_several_that_is_not_free_is_told(cx: &NodeCx) -> CheckResult {
    let (mine, other) = (cx.token(), cx.token());
    let keys = ["z free", "m own", "k first", "a second", "b third"];
    cx.expect(&acquire("m own", mine), &Reply::ok()).await?;
    cx.bed().put(b"a second", &Entry::OtherType).await?;
    cx.bed().put(b"b third", &Entry::forever("third")).await?;
    for first in [
        living(other.as_bytes(), TTL * 2),
        living("", TTL),
        Entry::forever("foreign"),
        Entry::forever(other.as_bytes()),
        Entry::OtherType,
    ] {
        let since = cx.prepare("k first", &first).await?;
        cx.expect_told_by(&acquire_all(&keys, mine), &first, since)
            .await?;
    }
    let since = cx.prepare("k first", &Entry::Missing).await?;
    cx.expect_told_by(&acquire_all(&keys, mine), &Entry::OtherType, since)
        .await
}

pub(crate) async fn of_several_a_long_value_is_told_by_its_first_128_bytes(
    cx: &NodeCx,
) -> CheckResult {
    for length in [127, 128, 129, 4096] {
        let value: Vec<u8> = (0..length).map(|n| (n % 251) as u8 | 0x80).collect();
        let held = Entry::forever(value.as_slice());
        let since = cx.prepare("k", &held).await?;
        let told = Entry::forever(&value[..length.min(128)]);
        let asked = acquire_all(&["free", "k"], cx.token());
        cx.expect_told_by(&asked, &told, since).await?;
        cx.expect_entry("k", &held).await?;
    }
    Ok(())
}

/// As after a lost reply: the keys that are there stay as they are, and the missing ones are set.
pub(crate) async fn several_know_their_own_keys_and_set_the_missing_ones(
    cx: &NodeCx,
) -> CheckResult {
    let mine = cx.token();
    let keys = ["longer", "missing", "shorter", "for ever", "missing too"];
    let since = cx.now();
    cx.expect(&acquire_for("longer", mine, TTL * 2), &Reply::ok())
        .await?;
    cx.expect(&acquire_for("shorter", mine, TTL / 2), &Reply::ok())
        .await?;
    let for_ever = Entry::forever(mine.as_bytes());
    cx.bed().put(b"for ever", &for_ever).await?;
    // The second time all are there.
    for ttl in [TTL, TTL * 3] {
        cx.expect(&acquire_all_for(&keys, mine, ttl), &Reply::Int(1))
            .await?;
        for (key, ttl) in [
            ("longer", TTL * 2),
            ("shorter", TTL / 2),
            ("missing", TTL),
            ("missing too", TTL),
        ] {
            cx.expect_aged(key, &living(mine.as_bytes(), ttl), since)
                .await?;
        }
        cx.expect_entry("for ever", &for_ever).await?;
    }
    Ok(())
}

/// Each asks for three of ten keys, in an order of its own.
pub(crate) async fn of_50_crossing_acquires_of_several_no_two_hold_one_key(
    cx: &NodeCx,
) -> CheckResult {
    let nodes = nodes(cx, 4).await?;
    for round in 0..4 {
        let asked: Vec<(Token, [String; 3])> = (0..50)
            .map(|n| {
                let step = [1, 3, 7, 9][(n + round) % 4];
                let key = |k: usize| format!("k{}", (n + k * step) % 10);
                (cx.token(), [0, 1, 2].map(key))
            })
            .collect();
        let calls = (asked.iter().enumerate())
            .map(|(n, (token, keys))| (Arc::clone(&nodes[n % 4]), acquire_all(keys, *token)));
        let replies = at_once(cx, calls).await?;

        let mut holders = HashMap::new();
        for ((token, keys), reply) in asked.iter().zip(&replies) {
            if *reply != Reply::Int(1) {
                continue;
            }
            for key in keys {
                let before = holders.insert(key.as_str(), *token);
                expect(before.is_none(), &format!("one holder of {key:?}"), before)?;
            }
        }
        expect(!holders.is_empty(), "somebody to hold keys", &replies)?;
        // An acquire that did not get all of its keys has left none.
        let held: Vec<&[u8]> = holders.keys().map(|key| key.as_bytes()).collect();
        cx.expect_keys(&held).await?;
        for (key, token) in &holders {
            cx.expect_held(key, *token).await?;
        }
        for ((token, keys), reply) in asked.iter().zip(&replies) {
            let released = i64::from(*reply == Reply::Int(1));
            let found = cx.reply(&release_all(keys, *token)).await?;
            let good = match released {
                1 => found == answers(&[1; 3]),
                _ => matches!(&found, Reply::Array(parts) if !parts.contains(&Reply::Int(1))),
            };
            expect(
                good,
                "the keys of who was granted them, and no others",
                found,
            )?;
        }
        cx.expect_keys(&[]).await?;
    }
    Ok(())
}

pub(crate) async fn a_release_of_several_answers_for_each_in_order(cx: &NodeCx) -> CheckResult {
    let (mine, other) = (cx.token(), cx.token());
    for key in ["own", "own too", "not named"] {
        cx.expect(&acquire(key, mine), &Reply::ok()).await?;
    }
    cx.expect(&acquire("other", other), &Reply::ok()).await?;
    cx.bed().put(b"hash", &Entry::OtherType).await?;
    let keys = ["own", "missing", "other", "hash", "own too"];
    let released = answers(&[1, 0, -1, -1, 1]);
    cx.expect(&release_all(&keys, mine), &released).await?;
    cx.expect_keys(&[b"not named", b"other", b"hash"]).await?;
    cx.expect_held("other", other).await?;
    let none = answers(&[0, 0, -1, -1, 0]);
    cx.expect(&release_all(&keys, mine), &none).await?;
    cx.expect(&release_all::<&str>(&[], mine), &answers(&[]))
        .await?;
    cx.expect_keys(&[b"not named", b"other", b"hash"]).await
}

pub(crate) async fn a_release_of_several_leaves_the_keys_of_others_alone(
    cx: &NodeCx,
) -> CheckResult {
    let mine = cx.token();
    let mut found = vec![Entry::OtherType];
    for value in lookalikes(mine) {
        found.extend([Entry::forever(value.as_slice()), living(value, TTL)]);
    }
    let keys: Vec<String> = (0..found.len()).map(|n| format!("k{n}")).collect();
    let since = cx.now();
    for (key, entry) in keys.iter().zip(&found) {
        cx.bed().put(key.as_bytes(), entry).await?;
    }
    for keep in [Duration::ZERO, TTL / 2, TTL * 2] {
        let release = release_all_keeping(&keys, mine, keep);
        cx.expect(&release, &answers(&vec![-1; keys.len()])).await?;
        for (key, entry) in keys.iter().zip(&found) {
            cx.expect_aged(key, entry, since).await?;
        }
    }
    Ok(())
}

/// It shortens, and neither lengthens nor creates.
pub(crate) async fn a_release_of_several_that_keeps_cuts_longer_lives_alone(
    cx: &NodeCx,
) -> CheckResult {
    let mine = cx.token();
    let keep = Duration::from_millis(300_567);
    let since = cx.now();
    cx.expect(&acquire("long", mine), &Reply::ok()).await?;
    cx.expect(&acquire_for("short", mine, TTL / 4), &Reply::ok())
        .await?;
    let for_ever = Entry::forever(mine.as_bytes());
    cx.bed().put(b"for ever", &for_ever).await?;
    let keys = ["long", "missing", "short", "for ever"];
    let kept = answers(&[1, 0, 1, 1]);
    for asked in [keep, keep * 2] {
        let release = release_all_keeping(&keys, mine, asked);
        cx.expect(&release, &kept).await?;
        for (key, left) in [("long", keep), ("short", TTL / 4), ("for ever", keep)] {
            cx.expect_aged(key, &living(mine.as_bytes(), left), since)
                .await?;
        }
        cx.expect_entry("missing", &Entry::Missing).await?;
    }
    Ok(())
}

pub(crate) async fn of_several_a_begun_millisecond_is_kept_as_a_whole_one(
    cx: &NodeCx,
) -> CheckResult {
    expect_whole_millis_kept(cx, |token, keep| {
        release_all_keeping(&["missing", "k"], token, keep)
    })
    .await
}

pub(crate) async fn a_hundred_keys_are_set_and_released_in_one_step(cx: &NodeCx) -> CheckResult {
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    let mine = cx.token();
    cx.expect(&acquire_all(&keys, mine), &Reply::Int(1)).await?;
    for key in &keys {
        cx.expect_held(key, mine).await?;
    }
    let foreign = Entry::forever("foreign");
    cx.bed().put(b"k99", &foreign).await?;
    let since = cx.now();
    cx.expect_told_by(&acquire_all(&keys, mine), &foreign, since)
        .await?;
    cx.bed().put(b"k70", &Entry::Missing).await?;
    let mut released = [1; 100];
    (released[70], released[99]) = (0, -1);
    let refused = answers(&[-1; 70]);
    cx.expect(&release_all(&keys[..70], cx.token()), &refused)
        .await?;
    cx.expect(&release_all(&keys, mine), &answers(&released))
        .await?;
    cx.expect_keys(&[b"k99"]).await
}

pub(crate) async fn an_error_inside_a_script_for_several_is_an_error(cx: &NodeCx) -> CheckResult {
    expect_script_errors(cx, |mine| {
        vec![
            acquire_all(&["free", "held"], mine),
            acquire_all(&["held"], mine),
            release_all_keeping(&["held", "free"], mine, TTL / 2),
            release_all(&["free", "held"], mine),
        ]
    })
    .await
}

pub(crate) async fn several_that_may_not_be_set_are_an_error(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    expect_set_denied(cx, &acquire_all(&["a", "b"], token)).await
}
