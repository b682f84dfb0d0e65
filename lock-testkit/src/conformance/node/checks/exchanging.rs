//! Compare-and-exchange of tokens.

use std::time::Duration;

use lock_core::Reply;

use super::scripts::expect_denied;
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, answers, exchange, exchange_all, extend, extended,
};
use crate::conformance::node::harness::{Denial, Entry, NodeFault};
use crate::conformance::node::looks::{living, lookalikes};
use crate::conformance::{CheckResult, expect_eq};

pub(crate) async fn an_exchange_gives_a_key_the_new_token_and_extends_it(
    cx: &NodeCx,
) -> CheckResult {
    let (old, new) = (cx.token(), cx.token());
    cx.expect(&acquire("k", old), &Reply::ok()).await?;
    // The second one finds the new token.
    for times in [2, 3] {
        let since = cx.now();
        cx.expect(&exchange("k", &[old], new, TTL * times), &answers(&[1]))
            .await?;
        cx.expect_aged("k", &living(new.as_bytes(), TTL * times), since)
            .await?;
    }
    cx.expect(&extend("k", old, TTL * 4), &extended(-1)).await?;
    // Any of several old tokens will do.
    let newest = cx.token();
    let old = [cx.token(), old, new];
    cx.expect(&exchange("k", &old, newest, TTL), &answers(&[1]))
        .await?;
    cx.expect_held("k", newest).await?;
    cx.bed()
        .put(b"k", &Entry::forever(newest.as_bytes()))
        .await?;
    let since = cx.now();
    cx.expect(&exchange("k", &[], newest, TTL), &answers(&[1]))
        .await?;
    cx.expect_aged("k", &living(newest.as_bytes(), TTL), since)
        .await
}

pub(crate) async fn an_exchange_never_shortens_a_life(cx: &NodeCx) -> CheckResult {
    let (old, new) = (cx.token(), cx.token());
    let since = cx.now();
    cx.expect(&acquire("k", old), &Reply::ok()).await?;
    for shorter in [TTL / 2, Duration::from_millis(1)] {
        cx.expect(&exchange("k", &[old], new, shorter), &answers(&[1]))
            .await?;
        cx.expect_aged("k", &living(new.as_bytes(), TTL), since)
            .await?;
    }
    Ok(())
}

pub(crate) async fn an_exchange_leaves_what_has_another_value_alone(cx: &NodeCx) -> CheckResult {
    let (old, new) = (cx.token(), cx.token());
    let ttl = (TTL * 2).as_millis().to_string().into_bytes();
    let mut values = lookalikes(old);
    values.extend([cx.token().as_bytes().to_vec(), b"foreign".to_vec(), ttl]);
    for value in values {
        for held in [Entry::forever(value.as_slice()), living(value, TTL)] {
            let since = cx.prepare("k", &held).await?;
            cx.expect(&exchange("k", &[old], new, TTL * 2), &answers(&[-1]))
                .await?;
            cx.expect_aged("k", &held, since).await?;
        }
    }
    cx.bed().put(b"k", &Entry::OtherType).await?;
    cx.expect(&exchange("k", &[old], new, TTL), &answers(&[-1]))
        .await?;
    cx.expect_entry("k", &Entry::OtherType).await?;
    cx.expect(&exchange("missing", &[old], new, TTL), &answers(&[0]))
        .await?;
    cx.expect_entry("missing", &Entry::Missing).await
}

pub(crate) async fn an_exchange_of_several_answers_for_each_in_order(cx: &NodeCx) -> CheckResult {
    let (old, new, other) = (cx.token(), cx.token(), cx.token());
    for (key, token) in [("a", old), ("b", new), ("other", other), ("z", old)] {
        cx.expect(&acquire(key, token), &Reply::ok()).await?;
    }
    cx.bed().put(b"hash", &Entry::OtherType).await?;
    let keys = ["hash", "z", "missing", "b", "other", "a"];
    let all = exchange_all(&keys, &[old], new, TTL * 2);
    cx.expect(&all, &answers(&[-1, 1, 0, 1, -1, 1])).await?;
    for key in ["a", "b", "z"] {
        cx.expect_held(key, new).await?;
    }
    cx.expect_held("other", other).await?;
    cx.expect_entry("missing", &Entry::Missing).await?;
    let reply = cx
        .reply(&exchange_all::<&str>(&[], &[old], new, TTL))
        .await?;
    expect_eq("the answer about no key", &answers(&[]), &reply)
}

pub(crate) async fn an_exchange_that_may_not_set_is_an_error(cx: &NodeCx) -> CheckResult {
    let (old, new) = (cx.token(), cx.token());
    let since = cx.now();
    cx.expect(&acquire("k", old), &Reply::ok()).await?;
    let denial = Denial::OutOfMemory;
    cx.inject(NodeFault::Deny(denial)).await?;
    expect_denied(cx, denial, &exchange("k", &[old], new, TTL * 2)).await?;
    cx.heal().await?;
    cx.expect_aged("k", &living(old.as_bytes(), TTL), since)
        .await
}
