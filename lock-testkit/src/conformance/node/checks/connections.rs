//! How many connections there are.

use futures::future::join_all;

use crate::conformance::node::calls::{AGES, BRIEF, told};
use crate::conformance::node::cx::{NodeCx, SHORT, acquire};
use crate::conformance::node::harness::{Access, NodeFault};
use crate::conformance::{CheckResult, Failure, expect};

/// The most connections that a pool may have. More of them, on each instance of a service, are a
/// burden to a server that allows 10,000 by default.
const POOL: usize = 64;

/// How many connections may be about to close, besides those that are in use.
const LINGERING: usize = 16;

/// Many calls at the same time, so that whatever grows with them has grown.
async fn crowd(cx: &NodeCx) -> CheckResult<usize> {
    cx.inject(NodeFault::HoldReplies).await?;
    let mut calls = Vec::new();
    for n in 0..200 {
        let mut call = cx.call(acquire(format!("crowd {n}"), cx.token()), AGES);
        cx.begin(&mut call).await?;
        calls.push(call);
    }
    let mut calls = join_all(calls);
    // They go on as connections come up, until nothing more comes.
    let (mut seen, mut since) = ((0, 0), cx.runtime().now());
    while cx.runtime().now().saturating_sub(since) < SHORT
        && futures::poll!(&mut calls).is_pending()
    {
        let commands = cx.bed().received().await?.len();
        let now = (commands, cx.bed().connections().await?);
        if now != seen {
            (seen, since) = (now, cx.runtime().now());
        }
        cx.sleep(BRIEF / 4).await;
    }
    cx.heal().await?;
    for answer in cx.ends_soon("many calls", calls).await? {
        answer.map_err(|error| Failure::new("a reply to each of 200 calls", told(&error)))?;
    }
    Ok(seen.1)
}

pub(crate) async fn many_calls_share_few_connections(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    let open = crowd(cx).await?;
    expect(
        open <= POOL,
        &format!("at most {POOL} connections for 200 calls"),
        open,
    )
}

pub(crate) async fn connections_do_not_grow_with_faults(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    // A pool has all its connections by now.
    let before = crowd(cx).await?;
    for _ in 0..20 {
        cx.inject(NodeFault::HalfOpen).await?;
        cx.until_answers_within(&**cx.node(), BRIEF).await?;
        let open = cx.bed().connections().await?;
        expect(
            open <= before + LINGERING,
            &format!("at most {LINGERING} connections more than the {before} before any fault"),
            open,
        )?;
    }
    Ok(())
}

pub(crate) async fn calls_to_a_server_that_is_silent_open_few_connections(
    cx: &NodeCx,
) -> CheckResult {
    cx.inject(NodeFault::BlackHole).await?;
    let node = cx.bed().connect(&Access::default()).await?;
    let before = cx.bed().opened().await?;
    for n in 0..100 {
        let command = acquire(format!("k{n}"), cx.token());
        let call = node.execute(&command, BRIEF / 4);
        let answer = cx.ends_soon("a call into a black hole", call).await?;
        expect(answer.is_err(), "an error", answer)?;
    }
    let opened = cx.bed().opened().await? - before;
    expect(
        opened < POOL,
        &format!("fewer than {POOL} connections for 100 calls"),
        opened,
    )?;
    cx.heal().await?;
    cx.until_answers(&*node).await
}
