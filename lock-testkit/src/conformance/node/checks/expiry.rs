//! How long keys live.

use std::time::Duration;

use lock_core::{Reply, Ttl};

use crate::conformance::CheckResult;
use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_for, acquire_or_report, acquire_or_report_for, extend, extended,
    release, release_keeping,
};
use crate::conformance::node::harness::{Access, Entry};
use crate::conformance::node::looks::living;

/// Long enough for a second command to find the key, whatever the machine does.
const HALF_SECONDS: Duration = Duration::from_millis(600_500);

/// 1.5 s is neither 1 s nor 2 s nor 1500 s. On a machine that stalls for longer, the short lifetime
/// proves nothing, but the longer ones do.
pub(crate) async fn lifetimes_are_exact_to_the_millisecond(cx: &NodeCx) -> CheckResult {
    let lifetimes = [1500, 1999, 600_500, 600_999].map(Duration::from_millis);
    for ttl in lifetimes {
        for by_script in [false, true] {
            cx.bed().put(b"k", &Entry::Missing).await?;
            let token = cx.token();
            let since = cx.now();
            if by_script {
                let acquire = acquire_or_report_for("k", token, ttl);
                cx.expect(&acquire, &Reply::Int(1)).await?;
            } else {
                let acquire = acquire_for("k", token, ttl);
                cx.expect(&acquire, &Reply::ok()).await?;
            }
            cx.expect_aged("k", &living(token.as_bytes(), ttl), since)
                .await?;
        }
    }
    Ok(())
}

pub(crate) async fn extensions_are_exact_to_the_millisecond(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    let shorter = living(token.as_bytes(), HALF_SECONDS / 2);
    cx.prepare("k", &shorter).await?;
    let since = cx.now();
    cx.expect(&extend("k", token, HALF_SECONDS), &extended(1))
        .await?;
    cx.expect_aged("k", &living(token.as_bytes(), HALF_SECONDS), since)
        .await
}

pub(crate) async fn what_a_release_keeps_is_exact_to_the_millisecond(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire_for("k", token, TTL * 2), &Reply::ok())
        .await?;
    let since = cx.now();
    cx.expect(&release_keeping("k", token, HALF_SECONDS), &Reply::Int(1))
        .await?;
    cx.expect_aged("k", &living(token.as_bytes(), HALF_SECONDS), since)
        .await
}

pub(crate) async fn the_shortest_lifetime_works(cx: &NodeCx) -> CheckResult {
    let shortest = Ttl::MIN.as_duration();
    let token = cx.token();
    cx.expect(&acquire("kept", token), &Reply::ok()).await?;
    for (key, command, reply) in [
        ("plain", acquire_for("plain", token, shortest), Reply::ok()),
        (
            "script",
            acquire_or_report_for("script", token, shortest),
            Reply::Int(1),
        ),
        (
            "kept",
            release_keeping("kept", token, shortest),
            Reply::Int(1),
        ),
    ] {
        let since = cx.now();
        cx.expect(&command, &reply).await?;
        cx.expect_aged(key, &living(token.as_bytes(), shortest), since)
            .await?;
        gone(cx, key).await?;
    }
    Ok(())
}

pub(crate) async fn the_longest_lifetime_works(cx: &NodeCx) -> CheckResult {
    let longest = Ttl::MAX.as_duration();
    let token = cx.token();
    let year = living(token.as_bytes(), longest);
    let since = cx.now();
    cx.expect(&acquire_for("plain", token, longest), &Reply::ok())
        .await?;
    cx.expect(
        &acquire_or_report_for("script", token, longest),
        &Reply::Int(1),
    )
    .await?;
    cx.expect(&acquire("extended", token), &Reply::ok()).await?;
    cx.expect(&extend("extended", token, longest), &extended(1))
        .await?;
    for key in ["plain", "script", "extended"] {
        cx.expect_aged(key, &year, since).await?;
    }
    Ok(())
}

pub(crate) async fn a_key_expires_by_itself_and_is_free_then(cx: &NodeCx) -> CheckResult {
    let brief = Duration::from_millis(30);
    let (first, second) = (cx.token(), cx.token());
    cx.expect(&acquire_for("k", first, brief), &Reply::ok())
        .await?;
    gone(cx, "k").await?;
    cx.expect(&extend("k", first, TTL), &extended(0)).await?;
    cx.expect(&release("k", first), &Reply::Int(0)).await?;
    let again = acquire_or_report_for("k", second, brief);
    cx.expect(&again, &Reply::Int(1)).await?;
    gone(cx, "k").await?;
    cx.expect(&acquire("k", first), &Reply::ok()).await?;
    cx.expect_held("k", first).await
}

/// Keys end by the server's clock, not by a timer of the client.
pub(crate) async fn a_key_expires_without_the_node_that_set_it(cx: &NodeCx) -> CheckResult {
    let node = cx.bed().connect(&Access::default()).await?;
    let brief = acquire_for("k", cx.token(), Duration::from_millis(30));
    let answer = crate::conformance::node::cx::send(&*node, &brief, TTL).await;
    answer.map_err(|error| crate::conformance::node::cx::not_answered(&brief, &error))?;
    drop(node);
    gone(cx, "k").await
}

/// A key without an expiry would be a lock that can never be acquired again.
pub(crate) async fn no_command_leaves_a_key_without_a_lifetime(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let steps = [
        (acquire("k", mine), Reply::ok()),
        (acquire("k", cx.token()), Reply::Nil),
        (acquire_or_report("k", mine), Reply::Int(1)),
        (extend("k", mine, TTL * 2), extended(1)),
        (extend("k", mine, TTL / 2), extended(1)),
        (release("k", cx.token()), Reply::Int(-1)),
        (release_keeping("k", mine, TTL), Reply::Int(1)),
        (release_keeping("k", mine, TTL * 4), Reply::Int(1)),
        (extend("k", mine, TTL * 2), extended(1)),
    ];
    for (command, reply) in &steps {
        cx.expect(command, reply).await?;
        cx.expect_held("k", mine).await?;
    }
    cx.expect(&acquire_or_report("script", mine), &Reply::Int(1))
        .await?;
    cx.expect_held("script", mine).await
}

/// The key has lost its expiry (`PERSIST`): it gets the lifetime that its holder asks for.
pub(crate) async fn a_key_that_lost_its_lifetime_gets_one_from_its_holder(
    cx: &NodeCx,
) -> CheckResult {
    let mine = cx.token();
    let for_ever = Entry::forever(mine.as_bytes());
    for command in [extend("k", mine, TTL), release_keeping("k", mine, TTL)] {
        let since = cx.prepare("k", &for_ever).await?;
        let reply = cx.reply(&command).await?;
        let good = reply == extended(1) || reply == Reply::Int(1);
        crate::conformance::expect(good, "the holder to be known", reply)?;
        cx.expect_aged("k", &living(mine.as_bytes(), TTL), since)
            .await?;
    }
    Ok(())
}

async fn gone(cx: &NodeCx, key: &str) -> CheckResult {
    let missing = |entry: &Entry| *entry == Entry::Missing;
    cx.eventually("the key to expire", key, missing).await
}
