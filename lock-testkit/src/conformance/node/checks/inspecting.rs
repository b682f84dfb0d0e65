//! Inspecting a lock, and removing it regardless of its holder.

use std::collections::BTreeSet;

use lock_core::Reply;

use super::scripts::expect_script_errors;
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, describe, inspect, release, remove, scan,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::living;
use crate::conformance::{CheckResult, Failure};

/// Values of all sorts.
fn values(cx: &NodeCx) -> [Vec<u8>; 5] {
    let token = cx.token();
    [token.as_bytes(), b"foreign", b"", b"1", b"\xff\0\r\n"].map(<[u8]>::to_vec)
}

pub(crate) async fn an_inspection_tells_the_holder_and_the_time_it_has_left(
    cx: &NodeCx,
) -> CheckResult {
    for value in values(cx) {
        let held = living(value, TTL);
        let since = cx.prepare("k", &held).await?;
        cx.expect_told_by(&inspect("k"), &held, since).await?;
    }
    Ok(())
}

pub(crate) async fn an_inspection_tells_of_a_key_that_lives_for_ever(cx: &NodeCx) -> CheckResult {
    for value in values(cx) {
        let held = Entry::forever(value);
        let since = cx.prepare("k", &held).await?;
        cx.expect_told_by(&inspect("k"), &held, since).await?;
    }
    Ok(())
}

pub(crate) async fn an_inspection_tells_of_a_key_of_another_type(cx: &NodeCx) -> CheckResult {
    let since = cx.prepare("k", &Entry::OtherType).await?;
    cx.expect_told_by(&inspect("k"), &Entry::OtherType, since)
        .await
}

pub(crate) async fn an_inspection_tells_a_long_value_by_its_first_128_bytes(
    cx: &NodeCx,
) -> CheckResult {
    for length in [127, 128, 129, 4096] {
        let value: Vec<u8> = (0..length).map(|n| (n % 251) as u8 | 0x80).collect();
        let since = cx.prepare("k", &Entry::forever(value.as_slice())).await?;
        let told = Entry::forever(&value[..length.min(128)]);
        cx.expect_told_by(&inspect("k"), &told, since).await?;
    }
    Ok(())
}

pub(crate) async fn an_inspection_finds_no_missing_key(cx: &NodeCx) -> CheckResult {
    cx.expect(&inspect("k"), &Reply::Int(0)).await?;
    let mine = cx.token();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    cx.expect(&release("k", mine), &Reply::Int(1)).await?;
    cx.expect(&inspect("k"), &Reply::Int(0)).await?;
    cx.expect_keys(&[]).await
}

/// An inspection neither lengthens nor shortens the life of a lock.
pub(crate) async fn an_inspection_changes_nothing(cx: &NodeCx) -> CheckResult {
    let mut found = vec![Entry::Missing, Entry::OtherType];
    for value in values(cx) {
        found.push(Entry::forever(value.as_slice()));
        found.push(living(value, TTL));
    }
    for entry in found {
        let since = cx.prepare("k", &entry).await?;
        for _ in 0..2 {
            cx.reply(&inspect("k")).await?;
            cx.expect_aged("k", &entry, since).await?;
        }
    }
    Ok(())
}

/// The time never goes back, and a server that takes locks is the primary.
pub(crate) async fn a_description_tells_the_time_and_the_role(cx: &NodeCx) -> CheckResult {
    let first = described(cx).await?;
    let second = described(cx).await?;
    if second < first {
        return Err(Failure::new(
            format!("a time that is not before {first:?}"),
            format!("{second:?}"),
        ));
    }
    cx.expect_keys(&[]).await
}

/// The server's time, in seconds and microseconds.
async fn described(cx: &NodeCx) -> CheckResult<(u64, u64)> {
    let reply = cx.reply(&describe()).await?;
    let number = |part: &Reply| match part {
        Reply::Bytes(text) => std::str::from_utf8(text).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    if let Reply::Array(parts) = &reply
        && let [secs, micros, Reply::Bytes(lines)] = &parts[..]
        && let (Some(secs), Some(micros)) = (number(secs), number(micros))
        && micros < 1_000_000
        && lines
            .split(|byte| *byte == b'\n')
            .any(|line| line == b"role:master")
    {
        return Ok((secs, micros));
    }
    Err(Failure::new(
        "the texts of the seconds and of the microseconds, and lines with role:master",
        format!("{reply:?}"),
    ))
}

pub(crate) async fn a_removal_deletes_the_key_whoever_holds_it(cx: &NodeCx) -> CheckResult {
    for value in values(cx) {
        for held in [Entry::forever(value.as_slice()), living(value, TTL)] {
            cx.bed().put(b"k", &held).await?;
            cx.expect(&remove("k"), &Reply::Int(1)).await?;
            cx.expect_entry("k", &Entry::Missing).await?;
        }
    }
    let mine = cx.token();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    cx.expect(&remove("k"), &Reply::Int(1)).await?;
    cx.expect(&acquire("k", cx.token()), &Reply::ok()).await
}

pub(crate) async fn a_removal_deletes_no_other_key(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    for key in ["k", "kk", "K", "other"] {
        cx.expect(&acquire(key, mine), &Reply::ok()).await?;
    }
    cx.expect(&remove("k"), &Reply::Int(1)).await?;
    cx.expect_keys(&[b"kk", b"K", b"other"]).await
}

pub(crate) async fn a_removal_leaves_a_key_of_another_type_alone(cx: &NodeCx) -> CheckResult {
    cx.bed().put(b"k", &Entry::OtherType).await?;
    cx.expect(&remove("k"), &Reply::Int(-1)).await?;
    cx.expect_entry("k", &Entry::OtherType).await
}

pub(crate) async fn a_removal_finds_no_missing_key(cx: &NodeCx) -> CheckResult {
    cx.expect(&remove("k"), &Reply::Int(0)).await?;
    cx.expect(&acquire("k", cx.token()), &Reply::ok()).await?;
    cx.expect(&remove("k"), &Reply::Int(1)).await?;
    cx.expect(&remove("k"), &Reply::Int(0)).await?;
    cx.expect_keys(&[]).await
}

/// The error must not read as "nobody holds it", nor as "it is not a lock".
pub(crate) async fn an_error_inside_an_inspection_or_a_removal_is_an_error(
    cx: &NodeCx,
) -> CheckResult {
    expect_script_errors(cx, |_| {
        vec![
            inspect("held"),
            inspect("free"),
            remove("held"),
            remove("free"),
        ]
    })
    .await
}

/// Prefixes that mean something to a pattern, and one that is no text.
const PREFIXES: [&[u8]; 4] = [b"lock:", b"l*[ab]?\\", b"^-", b"\xff\0"];

pub(crate) async fn a_scan_finds_the_strings_with_its_prefix_and_no_others(
    cx: &NodeCx,
) -> CheckResult {
    let mut expected = Vec::new();
    for prefix in PREFIXES {
        let keys = (0..30).map(|n| [prefix, format!("{n}").as_bytes()].concat());
        let keys: BTreeSet<Vec<u8>> = keys.collect();
        for key in &keys {
            cx.prepare(key, &living(b"foreign".to_vec(), TTL)).await?;
        }
        cx.prepare([prefix, b"other"].concat(), &Entry::OtherType)
            .await?;
        expected.push((prefix, keys));
    }
    expected.push((b"nothing".as_slice(), BTreeSet::new()));
    for (prefix, keys) in expected {
        let found = scanned(cx, prefix).await?;
        if found != keys {
            return Err(Failure::new(
                format!("{} keys that begin with {prefix:?}", keys.len()),
                format!("{} keys: {found:?}", found.len()),
            ));
        }
    }
    Ok(())
}

/// All parts of a scan.
async fn scanned(cx: &NodeCx, prefix: &[u8]) -> CheckResult<BTreeSet<Vec<u8>>> {
    let mut found = BTreeSet::new();
    let mut cursor = 0;
    loop {
        let reply = cx.reply(&scan(prefix, cursor)).await?;
        let Some((next, keys)) = part(&reply) else {
            return Err(Failure::new(
                "an array of a cursor and of keys",
                format!("{reply:?}"),
            ));
        };
        found.extend(keys);
        cursor = next;
        if cursor == 0 {
            return Ok(found);
        }
    }
}

fn part(reply: &Reply) -> Option<(u64, Vec<Vec<u8>>)> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    let [Reply::Bytes(cursor), Reply::Array(keys)] = &parts[..] else {
        return None;
    };
    let keys = keys.iter().map(|key| match key {
        Reply::Bytes(key) => Some(key.clone()),
        _ => None,
    });
    let cursor = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    Some((cursor, keys.collect::<Option<_>>()?))
}
