//! Counters of fencing tokens: raised with a lock that is granted, and confirmed only while it is held.

use lock_core::node::NodeErrorKind;
use lock_core::{Reply, Token};

use super::scripts::{expect_script_errors, expect_set_denied};
use crate::conformance::node::calls::told;
use crate::conformance::node::commands::RETENTION;
use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_fenced, confirm, counter_of, exchange, release_all,
};
use crate::conformance::node::harness::Entry;
use crate::conformance::node::looks::{living, lookalikes};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// What a counter holds.
fn counter(number: u64, by: Token) -> Vec<u8> {
    [format!("{number} ").as_bytes(), by.as_bytes()].concat()
}

/// Gives the counters of these keys a number each, raised by somebody.
async fn put_counters(cx: &NodeCx, keys: &[(&str, u64)]) -> CheckResult {
    for (key, number) in keys {
        let entry = living(counter(*number, cx.token()), RETENTION * 2);
        cx.bed().put(counter_of(key).as_bytes(), &entry).await?;
    }
    Ok(())
}

pub(crate) async fn a_fenced_acquire_raises_the_counter_and_answers_its_number(
    cx: &NodeCx,
) -> CheckResult {
    // From 2^50 on the default form of numbers in a script has too few digits.
    for number in [0, 9, 1_790_000_000_000_001, (1 << 53) - 2] {
        let token = cx.token();
        put_counters(cx, &[("k", number)]).await?;
        let raised = number + 1;
        let since = cx.now();
        let answer = Reply::Int(i64::try_from(raised).unwrap_or_default());
        cx.expect(&acquire_fenced(&["k"], token, 0), &answer)
            .await?;
        cx.expect_aged("k", &living(token.as_bytes(), TTL), since)
            .await?;
        let counter = living(counter(raised, token), RETENTION);
        cx.expect_aged(counter_of("k"), &counter, since).await?;
        cx.expect_keys(&[b"k", counter_of("k").as_bytes()]).await?;
        cx.bed().put(b"k", &Entry::Missing).await?;
    }
    Ok(())
}

pub(crate) async fn a_missing_counter_begins_at_the_clock_of_the_server(
    cx: &NodeCx,
) -> CheckResult {
    // 2020, in microseconds since 1970.
    const THE_PAST: i64 = 1_577_836_800_000_000;
    let token = cx.token();
    put_counters(cx, &[("b", 7)]).await?;
    let reply = cx
        .reply(&acquire_fenced(&["a", "b", "c"], token, 0))
        .await?;
    let number = match reply {
        Reply::Int(number) if number > THE_PAST => number.unsigned_abs(),
        other => {
            return Err(Failure::new(
                "the server's time in µs",
                format!("{other:?}"),
            ));
        }
    };
    for key in ["a", "b", "c"] {
        let found = cx.bed().look(counter_of(key).as_bytes()).await?;
        let value = counter(number, token);
        let is_good = matches!(&found, Entry::Value { value: found, .. } if *found == value);
        expect(is_good, "each counter with the number", &found)?;
        cx.expect_held(key, token).await?;
    }
    Ok(())
}

pub(crate) async fn a_fenced_acquire_is_above_its_floor(cx: &NodeCx) -> CheckResult {
    for (number, floor, expected) in [(7, 6, 8), (7, 7, 8), (7, 8, 9), (7, 1 << 52, (1 << 52) + 1)]
    {
        put_counters(cx, &[("k", number)]).await?;
        let asked = acquire_fenced(&["k"], cx.token(), floor);
        cx.expect(&asked, &Reply::Int(expected)).await?;
        cx.bed().put(b"k", &Entry::Missing).await?;
    }
    Ok(())
}

pub(crate) async fn counters_of_several_are_raised_to_one_number(cx: &NodeCx) -> CheckResult {
    put_counters(cx, &[("c", 5), ("a", 9), ("b", 7)]).await?;
    let (token, keys) = (cx.token(), ["c", "a", "b"]);
    let since = cx.now();
    cx.expect(&acquire_fenced(&keys, token, 0), &Reply::Int(10))
        .await?;
    for key in keys {
        cx.expect_aged(key, &living(token.as_bytes(), TTL), since)
            .await?;
        let counter = living(counter(10, token), RETENTION);
        cx.expect_aged(counter_of(key), &counter, since).await?;
    }
    Ok(())
}

pub(crate) async fn a_fenced_acquire_that_is_refused_changes_nothing(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let keys = ["a", "b", "c"];
    let mut found = vec![Entry::OtherType, living(cx.token().as_bytes(), TTL)];
    found.extend(lookalikes(mine).into_iter().map(Entry::forever));
    found.push(Entry::forever([0xff; 129]));
    for held in found {
        for taken in keys {
            put_counters(cx, &[("a", 5), ("c", 5)]).await?;
            let before = cx.bed().look(counter_of("a").as_bytes()).await?;
            let since = cx.prepare(taken, &held).await?;
            let told = match &held {
                Entry::Value { value, ttl } => Entry::Value {
                    value: value[..value.len().min(128)].to_vec(),
                    ttl: *ttl,
                },
                other => other.clone(),
            };
            cx.expect_told_by(&acquire_fenced(&keys, mine, 50), &told, since)
                .await?;
            cx.expect_aged(taken, &held, since).await?;
            cx.expect_aged(counter_of("a"), &before, since).await?;
            let (a, c) = (counter_of("a"), counter_of("c"));
            cx.expect_keys(&[taken.as_bytes(), a.as_bytes(), c.as_bytes()])
                .await?;
            cx.bed().put(taken.as_bytes(), &Entry::Missing).await?;
        }
    }
    Ok(())
}

/// The same command twice. What a lock alone shows is not enough: its counter may be another's by now.
pub(crate) async fn a_fenced_acquire_knows_itself_by_lock_and_counter_alone(
    cx: &NodeCx,
) -> CheckResult {
    let (mine, keys) = (cx.token(), ["a", "b"]);
    put_counters(cx, &[("a", 5), ("b", 9)]).await?;
    let asked = acquire_fenced(&keys, mine, 0);
    let since = cx.now();
    for _ in 0..2 {
        cx.expect(&asked, &Reply::Int(10)).await?;
    }
    let own = living(mine.as_bytes(), TTL);
    let raised = living(counter(10, mine), RETENTION);
    cx.expect_aged("a", &own, since).await?;
    let strange = [
        Entry::Missing,
        living(counter(10, cx.token()), RETENTION),
        living(counter(11, cx.token()), RETENTION),
    ];
    for key in keys {
        for counter in &strange {
            cx.bed().put(counter_of(key).as_bytes(), counter).await?;
            cx.expect_told_by(&asked, &own, since).await?;
            cx.expect_aged(counter_of(key), counter, since).await?;
            cx.expect_aged(key, &own, since).await?;
        }
        cx.bed().put(counter_of(key).as_bytes(), &raised).await?;
        cx.expect(&asked, &Reply::Int(10)).await?;
    }
    for missing in keys {
        cx.bed().put(missing.as_bytes(), &Entry::Missing).await?;
        cx.expect_told_by(&asked, &own, since).await?;
        cx.expect_entry(missing, &Entry::Missing).await?;
        cx.bed().put(missing.as_bytes(), &own).await?;
    }
    Ok(())
}

pub(crate) async fn a_counter_that_is_none_is_an_error_and_nothing_is_set(
    cx: &NodeCx,
) -> CheckResult {
    let values = [
        "", "7", "7 ", " x", "seven x", "-7 x", "0x7 x", "7.5 x", "7\tx",
    ];
    let mut none = values.map(Entry::forever).to_vec();
    none.push(Entry::OtherType);
    let none = none.iter().map(|entry| (entry, "WRONGTYPE"));
    let full = ["9007199254740991 x", "18446744073709551616 x"].map(Entry::forever);
    for (entry, code) in none.chain(full.iter().map(|entry| (entry, "ERR"))) {
        put_counters(cx, &[("a", 7)]).await?;
        cx.bed().put(counter_of("b").as_bytes(), entry).await?;
        let asked = acquire_fenced(&["a", "b"], cx.token(), 0);
        let error = cx.expect_error(&asked, LONG).await?;
        let is_good = error.kind() == NodeErrorKind::Server
            && error.code() == Some(code)
            && error.to_string().contains("the fencing counter");
        let wanted = format!("an error {code} about the fencing counter");
        expect(is_good, &wanted, told(&error))?;
        cx.expect_entry(counter_of("b"), entry).await?;
        let (a, b) = (counter_of("a"), counter_of("b"));
        cx.expect_keys(&[a.as_bytes(), b.as_bytes()]).await?;
    }
    Ok(())
}

pub(crate) async fn a_confirmation_raises_the_counters_of_a_held_lock(cx: &NodeCx) -> CheckResult {
    for keys in [&["a"][..], &["c", "a", "b"]] {
        let token = cx.token();
        let counters: Vec<_> = keys
            .iter()
            .map(|key| (*key, 1_790_000_000_000_000))
            .collect();
        put_counters(cx, &counters).await?;
        let granted = 1_790_000_000_000_001_u64;
        cx.reply(&acquire_fenced(keys, token, 0)).await?;
        let raised = granted + 6;
        let since = cx.now();
        let confirmed = confirm(keys, token, granted, raised);
        cx.expect(&confirmed, &Reply::Int(1)).await?;
        for key in keys {
            let counter = living(counter(raised, token), RETENTION);
            cx.expect_aged(counter_of(key), &counter, since).await?;
            cx.expect_held(key, token).await?;
        }
        cx.expect(&confirmed, &Reply::Int(0)).await?;
        cx.reply(&release_all(keys, token)).await?;
    }
    Ok(())
}

pub(crate) async fn a_confirmation_of_what_has_gone_changes_nothing(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let keys = ["a", "b"];
    let own = living(mine.as_bytes(), TTL);
    let raised = living(counter(10, mine), RETENTION);
    let others = |value: Vec<u8>| [Entry::forever(value.as_slice()), living(value, TTL)];
    let mut locks = vec![Entry::Missing, Entry::OtherType];
    locks.extend(lookalikes(mine).into_iter().flat_map(others));
    locks.extend(others(cx.token().as_bytes().to_vec()));
    let mut counters = vec![Entry::Missing, Entry::OtherType, Entry::forever("10")];
    for (number, by) in [(9, mine), (11, mine), (10, cx.token()), (12, cx.token())] {
        counters.push(living(counter(number, by), RETENTION));
    }
    let states = locks.iter().map(|lock| (lock, &raised));
    for (lock, count) in states.chain(counters.iter().map(|count| (&own, count))) {
        for gone in keys {
            let since = cx.now();
            for key in keys {
                let is_gone = key == gone;
                let (lock, count) = if is_gone {
                    (lock, count)
                } else {
                    (&own, &raised)
                };
                cx.bed().put(key.as_bytes(), lock).await?;
                cx.bed().put(counter_of(key).as_bytes(), count).await?;
            }
            cx.expect(&confirm(&keys, mine, 10, 12), &Reply::Int(0))
                .await?;
            for key in keys {
                let is_gone = key == gone;
                let (lock, count) = if is_gone {
                    (lock, count)
                } else {
                    (&own, &raised)
                };
                cx.expect_aged(key, lock, since).await?;
                cx.expect_aged(counter_of(key), count, since).await?;
            }
        }
    }
    Ok(())
}

/// A lease was resumed meanwhile, by a token of its own.
pub(crate) async fn a_confirmation_behind_an_exchange_changes_nothing(cx: &NodeCx) -> CheckResult {
    let (old, new) = (cx.token(), cx.token());
    put_counters(cx, &[("k", 6)]).await?;
    cx.expect(&acquire_fenced(&["k"], old, 0), &Reply::Int(7))
        .await?;
    cx.reply(&exchange("k", &[old], new, TTL)).await?;
    for token in [old, new] {
        cx.expect(&confirm(&["k"], token, 7, 9), &Reply::Int(0))
            .await?;
    }
    let found = cx.bed().look(counter_of("k").as_bytes()).await?;
    let is_kept = matches!(&found, Entry::Value { value, .. } if *value == counter(7, old));
    expect_eq(&format!("whether {found} is the counter"), &true, &is_kept)
}

pub(crate) async fn an_error_inside_a_fencing_script_is_an_error(cx: &NodeCx) -> CheckResult {
    expect_script_errors(cx, |mine| {
        vec![
            acquire_fenced(&["free"], mine, 0),
            acquire_fenced(&["held"], mine, 0),
            confirm(&["held"], mine, 1, 2),
        ]
    })
    .await
}

/// The clock and `SET` are what a script needs beside `GET`.
pub(crate) async fn a_fencing_script_that_may_not_set_is_an_error(cx: &NodeCx) -> CheckResult {
    expect_set_denied(cx, &acquire_fenced(&["k"], cx.token(), 0)).await?;
    let token = cx.token();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    let entry = Entry::forever(counter(7, token));
    cx.bed().put(counter_of("k").as_bytes(), &entry).await?;
    super::scripts::with_set_denied(cx, &confirm(&["k"], token, 7, 9)).await?;
    cx.expect_entry(counter_of("k"), &entry).await
}
