//! Commands for one key, and the order in which they leave.

use lock_core::{NodeError, Reply, Token};

use crate::conformance::node::calls::{AGES, BRIEF, Call, told};
use crate::conformance::node::cx::{LONG, NodeCx, SHORT, acquire, release};
use crate::conformance::node::harness::{Access, Entry, NodeFault};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

const KEYS: usize = 40;

fn attempts(cx: &NodeCx) -> Vec<(String, Token)> {
    (0..KEYS).map(|n| (format!("k{n}"), cx.token())).collect()
}

/// Releases a key as a lock does: again and again until there is a definite answer.
async fn release_for_good(cx: &NodeCx, key: &str, token: Token) -> CheckResult<Reply> {
    let start = cx.runtime().now();
    loop {
        let error = match cx.send(&release(key, token)).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if cx.runtime().now().saturating_sub(start) > cx.patience() {
            return Err(Failure::new("a release to be answered", told(&error)));
        }
        cx.sleep(BRIEF).await;
    }
}

pub(crate) async fn a_release_does_not_overtake_its_acquire(cx: &NodeCx) -> CheckResult {
    cx.teach_scripts().await?;
    cx.inject(NodeFault::Hang).await?;
    let attempts = attempts(cx);
    let mut calls = Vec::new();
    for (n, (key, token)) in attempts.iter().enumerate() {
        if n % 3 == 0 {
            // Otherwise a node with several connections might keep the order by chance.
            let mut call = cx.call(release("nobody", *token), AGES);
            cx.begin(&mut call).await?;
            calls.push((None, call));
        }
        let mut acquire = cx.call(acquire(key, *token), AGES);
        cx.begin(&mut acquire).await?;
        let mut release = cx.call(release(key, *token), AGES);
        cx.begin(&mut release).await?;
        // Half of the acquires are not waited for. Whether they were sent does not matter.
        calls.push(((n % 2 == 0).then_some(acquire), release));
    }
    cx.heal().await?;
    for (acquire, release) in calls {
        let mut expected = Vec::new();
        if let Some(acquire) = acquire {
            expected.push((acquire, Some(Reply::ok())));
            expected.push((release, Some(Reply::Int(1))));
        } else {
            expected.push((release, None));
        }
        for (call, expected) in expected {
            let answer = cx.ends_soon("a call", call).await?;
            let reply = answer.map_err(|error| Failure::new("a reply", told(&error)))?;
            if let Some(expected) = expected {
                let what = "the reply to an acquire, or to the release behind it";
                expect_eq(what, &expected, &reply)?;
            }
        }
    }
    cx.expect_no_keys("acquires that were released").await
}

pub(crate) async fn calls_that_wait_for_the_connection_keep_their_order(
    cx: &NodeCx,
) -> CheckResult {
    cx.teach_scripts().await?;
    let node = cx.bed().connect(&Access::default()).await?;
    let attempts = attempts(cx);
    let mut calls: Vec<(usize, Call)> = Vec::new();
    for (n, (key, token)) in attempts.iter().enumerate() {
        for command in [acquire(key, *token), release(key, *token)] {
            let node = std::sync::Arc::clone(&node);
            let mut call: Call = Box::pin(async move { node.execute(&command, LONG).await });
            match futures::poll!(&mut call) {
                std::task::Poll::Pending => calls.push((n, call)),
                // A node may fail at once while it connects.
                std::task::Poll::Ready(_) => {}
            }
        }
    }
    let mut answers: Vec<Option<Result<Reply, NodeError>>> = vec![None; KEYS];
    for (n, call) in calls {
        answers[n] = Some(cx.ends_soon("a call", call).await?);
    }
    for (n, (key, token)) in attempts.iter().enumerate() {
        if !matches!(answers[n], Some(Ok(_))) {
            release_for_good(cx, key, *token).await?;
        }
    }
    cx.expect_no_keys("acquires that were released").await
}

pub(crate) async fn commands_for_one_key_arrive_in_the_order_of_the_calls(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    let keys: Vec<String> = (0..7).map(|n| format!("k{n}")).collect();
    let mut calls = Vec::new();
    let mut expected = vec![Vec::new(); keys.len()];
    for _ in 0..20 {
        for (key, sent) in keys.iter().zip(&mut expected) {
            let token = cx.token();
            sent.push(token.as_bytes().to_vec());
            let mut call = cx.call(acquire(key, token), LONG);
            // An immediate answer is just as good.
            if futures::poll!(&mut call).is_pending() {
                calls.push(call);
            }
        }
    }
    let calls = futures::future::join_all(calls);
    for answer in cx.ends_soon("all calls", calls).await? {
        answer.map_err(|error| Failure::new("a reply", told(&error)))?;
    }
    for (key, sent) in keys.iter().zip(expected) {
        let received = cx.received_for(key).await?;
        let tokens = received
            .into_iter()
            .filter_map(|words| words.into_iter().nth(2));
        let received: Vec<_> = tokens.collect();
        expect_eq(
            &format!("the tokens of {key} in order"),
            &texts(&sent),
            &texts(&received),
        )?;
    }
    Ok(())
}

fn texts(words: &[Vec<u8>]) -> Vec<String> {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    words.iter().map(text).collect()
}

pub(crate) async fn a_replaced_connection_takes_the_releases_of_its_acquires(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    let opened = cx.bed().opened().await?;
    cx.inject(NodeFault::Hang).await?;
    let attempts = attempts(cx);
    let calls = attempts
        .iter()
        .map(|(key, token)| cx.call(acquire(key, *token), 10 * SHORT));
    let calls = futures::future::join_all(calls);
    let answers = cx.ends_soon("calls to a hung server", calls).await?;
    expect(
        answers.iter().all(Result::is_err),
        "errors of a server that hangs",
        &answers,
    )?;
    for (_, token) in &attempts {
        cx.until_received(token.as_str(), 1).await?;
    }
    // This is enough to give up any connection, whichever one the key belongs to. A node that keeps
    // it also keeps the order.
    for _ in 0..20 {
        let calls = attempts.iter();
        let calls = calls.map(|(key, _)| cx.call(release(key, cx.token()), BRIEF));
        cx.ends_soon("calls to a hung server", futures::future::join_all(calls))
            .await?;
    }
    if cx.bed().opened().await? > opened {
        for (_, token) in &attempts {
            cx.until_received(token.as_str(), 2).await?;
        }
    }
    cx.heal().await?;
    for (key, token) in &attempts {
        release_for_good(cx, key, *token).await?;
    }
    for (key, _) in &attempts {
        let gone = |entry: &Entry| *entry == Entry::Missing;
        cx.eventually("no key of an acquire that was released", key, gone)
            .await?;
    }
    Ok(())
}
