//! Keys and values are bytes.

use lock_core::Reply;

use crate::conformance::CheckResult;
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_or_report, extend, extended, release, release_keeping,
};
use crate::conformance::node::harness::Entry;

/// Does everything that a lock does with a key, of which no byte may get lost.
async fn lives_a_whole_life(cx: &NodeCx, key: &[u8]) -> CheckResult {
    let mine = cx.token();
    cx.expect(&acquire(key, mine), &Reply::ok()).await?;
    cx.expect_keys(&[key]).await?;
    cx.expect_held(key, mine).await?;
    cx.expect(&acquire(key, cx.token()), &Reply::Nil).await?;
    cx.expect_told(key, mine.as_bytes()).await?;
    cx.expect(&extend(key, mine, TTL * 2), &extended(1)).await?;
    cx.expect(&release_keeping(key, mine, TTL), &Reply::Int(1))
        .await?;
    cx.expect(&release(key, mine), &Reply::Int(1)).await?;
    cx.expect_keys(&[]).await?;
    cx.expect(&acquire_or_report(key, mine), &Reply::Int(1))
        .await?;
    cx.expect_keys(&[key]).await?;
    cx.expect(&release(key, mine), &Reply::Int(1)).await
}

pub(crate) async fn keys_are_bytes(cx: &NodeCx) -> CheckResult {
    let every_byte: Vec<u8> = (0..=255).collect();
    let keys: [&[u8]; 8] = [
        b"\xff\xfe\x00\r\n",
        b"\xff",
        b"\x00",
        b"\r\n",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"a\xe2\x82",
        &every_byte,
    ];
    for key in keys {
        lives_a_whole_life(cx, key).await?;
    }
    Ok(())
}

pub(crate) async fn keys_of_unicode_stay_as_they_are(cx: &NodeCx) -> CheckResult {
    // The last two look alike and are different: no form of Unicode is turned into another.
    for key in ["🔒", "ключ", "مفتاح", "\u{feff}k", "\u{e9}", "e\u{301}"] {
        lives_a_whole_life(cx, key.as_bytes()).await?;
    }
    Ok(())
}

pub(crate) async fn keys_may_hold_whatever_means_something_elsewhere(cx: &NodeCx) -> CheckResult {
    let keys = [
        "with spaces",
        " ",
        "'",
        "\"quoted\"",
        "{tag}:k",
        "{",
        "}{",
        "*",
        "k?[a-z]",
        "back\\slash\\x00",
        "%00%0d%0a",
        "a\r\nDEL k\r\n",
        "$3\r\nfoo",
        "-ERR k",
        "NX",
        "0",
        "-1",
        "1e3",
        "KEYS[1]",
        "]]--",
        "/../",
    ];
    for key in keys {
        lives_a_whole_life(cx, key.as_bytes()).await?;
    }
    Ok(())
}

pub(crate) async fn keys_of_64_kib_work(cx: &NodeCx) -> CheckResult {
    let long = vec![b'k'; 64 * 1024];
    lives_a_whole_life(cx, &long).await?;
    // They differ only in their last byte.
    let mut sibling = long.clone();
    sibling[64 * 1024 - 1] = b'l';
    let (mine, other) = (cx.token(), cx.token());
    cx.expect(&acquire(&long, mine), &Reply::ok()).await?;
    cx.expect(&acquire(&sibling, other), &Reply::ok()).await?;
    cx.expect_told(&long, mine.as_bytes()).await?;
    cx.expect_told(&sibling, other.as_bytes()).await
}

pub(crate) async fn keys_that_look_alike_are_different_keys(cx: &NodeCx) -> CheckResult {
    let keys: [&[u8]; 19] = [
        b"k",
        b"K",
        b"kk",
        b"k\0",
        b"k\0\0",
        b"\0k",
        b"k ",
        b" k",
        b"k\n",
        b"k\r\n",
        b"\"k\"",
        b"{k}",
        b"lock:k",
        b"\xff",
        b"\xfe",
        b"\xef\xbf\xbd",
        b"1",
        b"01",
        b"1.0",
    ];
    let holders = keys.map(|key| (key, cx.token()));
    for (key, token) in holders {
        cx.expect(&acquire(key, token), &Reply::ok()).await?;
    }
    cx.expect_keys(&keys).await?;
    for (key, token) in holders {
        cx.expect_told(key, token.as_bytes()).await?;
    }
    for (n, (key, token)) in holders.into_iter().enumerate() {
        cx.expect(&release(key, token), &Reply::Int(1)).await?;
        cx.expect_keys(&keys[n + 1..]).await?;
    }
    Ok(())
}

pub(crate) async fn values_are_bytes(cx: &NodeCx) -> CheckResult {
    let values: [&[u8]; 9] = [
        b"\xff\xfe\x00\r\n",
        b"",
        b"\0",
        b"OK",
        b"1",
        b"-1",
        b"nil",
        b"\xc3\x28",
        "🔒".as_bytes(),
    ];
    for value in values {
        let held = Entry::forever(value);
        cx.bed().put(b"k", &held).await?;
        cx.expect_told("k", value).await?;
        cx.expect(&release("k", cx.token()), &Reply::Int(-1))
            .await?;
        cx.expect_entry("k", &held).await?;
    }
    Ok(())
}
