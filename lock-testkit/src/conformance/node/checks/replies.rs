//! The answer of each command, and its effect.

use std::time::Duration;

use lock_core::Reply;

use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_all, acquire_fenced, acquire_for, acquire_or_report,
    acquire_or_report_for, answers, confirm, exchange, exchange_all, extend_all, extended, inspect,
    release, release_all, release_all_keeping, release_keeping, remove,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::living;
use crate::conformance::{CheckResult, expect_eq};

pub(crate) async fn a_free_key_is_set(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    cx.expect_held("k", token).await
}

pub(crate) async fn a_taken_key_is_refused_and_left_alone(cx: &NodeCx) -> CheckResult {
    let foreign = Entry::forever("foreign");
    cx.bed().put(b"k", &foreign).await?;
    cx.expect(&acquire("k", cx.token()), &Reply::Nil).await?;
    cx.expect_entry("k", &foreign).await
}

/// Whether the refused call asks for a longer or a shorter lifetime.
pub(crate) async fn a_refusal_leaves_value_and_lifetime_alone(cx: &NodeCx) -> CheckResult {
    for asked in [TTL / 2, TTL * 2] {
        for value in [cx.token().as_bytes(), b"foreign", b""] {
            let held = living(value, TTL);
            let since = cx.prepare("k", &held).await?;
            let plain = acquire_for("k", cx.token(), asked);
            cx.expect(&plain, &Reply::Nil).await?;
            cx.expect_aged("k", &held, since).await?;
            let by_script = acquire_or_report_for("k", cx.token(), asked);
            cx.reply(&by_script).await?;
            cx.expect_aged("k", &held, since).await?;
        }
    }
    Ok(())
}

/// The plain command also refuses its own token. Only the script recognizes it.
pub(crate) async fn an_acquire_does_not_set_its_own_key_again(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    let since = cx.now();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    cx.expect(&acquire_for("k", token, TTL * 2), &Reply::Nil)
        .await?;
    cx.expect_aged("k", &living(token.as_bytes(), TTL), since)
        .await
}

pub(crate) async fn a_key_of_another_type_is_refused_and_left_alone(cx: &NodeCx) -> CheckResult {
    cx.bed().put(b"k", &Entry::OtherType).await?;
    cx.expect(&acquire("k", cx.token()), &Reply::Nil).await?;
    cx.expect_entry("k", &Entry::OtherType).await?;
    let told = cx.told("k").await?;
    expect_eq("the holder and the PTTL", &(Reply::Nil, -1), &told)?;
    cx.expect_entry("k", &Entry::OtherType).await
}

pub(crate) async fn a_free_key_is_set_by_script(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire_or_report("k", token), &Reply::Int(1))
        .await?;
    cx.expect_held("k", token).await
}

pub(crate) async fn an_acquire_by_script_knows_its_own_token_and_changes_nothing(
    cx: &NodeCx,
) -> CheckResult {
    let token = cx.token();
    let since = cx.now();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    for asked in [TTL / 2, TTL * 2] {
        let again = acquire_or_report_for("k", token, asked);
        cx.expect(&again, &Reply::Int(1)).await?;
        cx.expect_aged("k", &living(token.as_bytes(), TTL), since)
            .await?;
    }
    let for_ever = Entry::forever(token.as_bytes());
    cx.bed().put(b"k", &for_ever).await?;
    cx.expect(&acquire_or_report("k", token), &Reply::Int(1))
        .await?;
    cx.expect_entry("k", &for_ever).await
}

pub(crate) async fn an_acquire_by_script_tells_the_holder_and_the_time_it_has_left(
    cx: &NodeCx,
) -> CheckResult {
    for value in [cx.token().as_bytes(), b"foreign", b"", b"1", b"\xff\0\r\n"] {
        let held = living(value, TTL);
        let since = cx.prepare("k", &held).await?;
        let asks = acquire_or_report("k", cx.token());
        cx.expect_told_by(&asks, &held, since).await?;
    }
    Ok(())
}

pub(crate) async fn an_acquire_by_script_tells_of_a_key_that_lives_for_ever(
    cx: &NodeCx,
) -> CheckResult {
    let foreign = Entry::forever("foreign");
    cx.bed().put(b"k", &foreign).await?;
    let told = cx.told("k").await?;
    let expected = (Reply::Bytes(b"foreign".to_vec()), -1);
    expect_eq("the holder and the PTTL", &expected, &told)?;
    cx.expect_entry("k", &foreign).await
}

pub(crate) async fn a_long_value_is_told_by_its_first_128_bytes(cx: &NodeCx) -> CheckResult {
    for length in [127, 128, 129, 4096] {
        let value: Vec<u8> = (0..length).map(|n| (n % 251) as u8 | 0x80).collect();
        cx.bed()
            .put(b"k", &Entry::forever(value.as_slice()))
            .await?;
        cx.expect_told("k", &value[..length.min(128)]).await?;
        cx.expect_entry("k", &Entry::forever(value.as_slice()))
            .await?;
    }
    Ok(())
}

/// The algorithm matches on these shapes, so an integer in the shape of a string is an error.
pub(crate) async fn every_reply_has_the_form_that_the_docs_name(cx: &NodeCx) -> CheckResult {
    let (mine, other) = (cx.token(), cx.token());
    cx.bed().put(b"foreign", &Entry::forever("f")).await?;
    cx.bed().put(b"hash", &Entry::OtherType).await?;
    let told = |holder| Reply::Array(vec![holder, Reply::Int(-1)]);
    let keep = Duration::from_secs(300);
    let all = [
        (b"a".as_slice(), mine, TTL * 2),
        (b"missing", mine, TTL),
        (b"foreign", mine, TTL),
        (b"hash", mine, TTL),
    ];
    let steps = [
        (acquire("a", mine), Reply::ok()),
        (acquire("a", other), Reply::Nil),
        (acquire("hash", mine), Reply::Nil),
        (acquire_or_report("b", mine), Reply::Int(1)),
        (acquire_or_report("b", mine), Reply::Int(1)),
        (
            acquire_or_report("foreign", mine),
            told(Reply::Bytes(b"f".to_vec())),
        ),
        (acquire_or_report("hash", mine), told(Reply::Nil)),
        (extend_all(all), answers(&[1, 0, -1, -1])),
        (extend_all(all[..1].iter().copied()), extended(1)),
        (extend_all([]), Reply::Array(Vec::new())),
        (
            exchange_all(&["a", "missing", "foreign", "hash"], &[other], mine, TTL),
            answers(&[1, 0, -1, -1]),
        ),
        (exchange("a", &[other], mine, TTL), answers(&[1])),
        (release("a", other), Reply::Int(-1)),
        (release("hash", mine), Reply::Int(-1)),
        (release_keeping("a", other, keep), Reply::Int(-1)),
        (release_keeping("a", mine, keep), Reply::Int(1)),
        (release_keeping("missing", mine, keep), Reply::Int(0)),
        (release("a", mine), Reply::Int(1)),
        (release("a", mine), Reply::Int(0)),
        (acquire_all(&["a", "c"], mine), Reply::Int(1)),
        (acquire_all(&["a", "d"], mine), Reply::Int(1)),
        (
            acquire_all(&["e", "foreign"], mine),
            told(Reply::Bytes(b"f".to_vec())),
        ),
        (acquire_all(&["hash", "e"], mine), told(Reply::Nil)),
        (
            acquire_fenced(&["n"], mine, 1 << 52),
            Reply::Int((1 << 52) + 1),
        ),
        (
            acquire_fenced(&["free", "foreign"], other, 0),
            told(Reply::Bytes(b"f".to_vec())),
        ),
        (acquire_fenced(&["hash"], mine, 0), told(Reply::Nil)),
        (
            confirm(&["n"], mine, (1 << 52) + 1, (1 << 52) + 3),
            Reply::Int(1),
        ),
        (
            confirm(&["n"], mine, (1 << 52) + 1, (1 << 52) + 3),
            Reply::Int(0),
        ),
        (inspect("foreign"), told(Reply::Bytes(b"f".to_vec()))),
        (inspect("hash"), told(Reply::Nil)),
        (inspect("missing"), Reply::Int(0)),
        (
            release_all(&["a", "missing", "foreign", "hash"], mine),
            answers(&[1, 0, -1, -1]),
        ),
        (release_all_keeping(&["c"], mine, keep), answers(&[1])),
        (release_all::<&str>(&[], mine), answers(&[])),
        (remove("c"), Reply::Int(1)),
        (remove("hash"), Reply::Int(-1)),
        (remove("missing"), Reply::Int(0)),
    ];
    for (command, reply) in &steps {
        cx.expect(command, reply).await?;
    }
    Ok(())
}
