//! Scripts that the server does not know, or that fail.

use std::time::Duration;

use lock_core::node::NodeErrorKind;
use lock_core::runtime::BoxFuture;
use lock_core::{Command, NodeError, Reply, Token};

use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_all, acquire_or_report, answers, described, exchange,
    extend, extended, inspect, not_answered, release, release_all, release_all_keeping,
    release_keeping, remove,
};
use crate::conformance::node::harness::{Denial, Entry, NodeFault};
use crate::conformance::node::looks::living;
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// Sends only this command: trying again, by source, is up to the lock.
async fn once(cx: &NodeCx, command: &Command) -> Result<Reply, NodeError> {
    cx.node().execute(command, LONG).await
}

fn is_server_error(error: &NodeError, code: &str) -> bool {
    error.kind() == NodeErrorKind::Server && error.code() == Some(code)
}

async fn expect_noscript(cx: &NodeCx, command: &Command) -> CheckResult {
    match once(cx, command).await {
        Err(error) if is_server_error(&error, "NOSCRIPT") => Ok(()),
        answer => Err(Failure::new(
            format!("a server's error NOSCRIPT to {}", described(command)),
            format!("{answer:?}"),
        )),
    }
}

pub(crate) async fn an_unknown_script_is_noscript_and_has_not_run(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let since = cx.now();
    cx.expect(&acquire("held", mine), &Reply::ok()).await?;
    for command in [
        acquire_or_report("free", mine),
        acquire_or_report("held", cx.token()),
        extend("held", mine, TTL * 2),
        exchange("held", &[mine], cx.token(), TTL * 2),
        release_keeping("held", mine, TTL / 2),
        release("held", mine),
        acquire_all(&["free", "held"], mine),
        release_all_keeping(&["held"], mine, TTL / 2),
        release_all(&["held", "free"], mine),
        inspect("held"),
        remove("held"),
    ] {
        cx.bed().flush_scripts().await?;
        expect_noscript(cx, &command).await?;
        cx.expect_aged("held", &living(mine.as_bytes(), TTL), since)
            .await?;
        cx.expect_keys(&[b"held"]).await?;
    }
    Ok(())
}

pub(crate) async fn a_script_runs_by_its_source_too(cx: &NodeCx) -> CheckResult {
    let mine = cx.token();
    let steps = [
        (acquire("k", mine), Reply::ok()),
        (acquire_or_report("k", mine), Reply::Int(1)),
        (extend("k", mine, TTL * 2), extended(1)),
        (exchange("k", &[], mine, TTL * 2), answers(&[1])),
        (release_keeping("k", mine, TTL), Reply::Int(1)),
        (release("k", mine), Reply::Int(1)),
        (acquire_all(&["k"], mine), Reply::Int(1)),
        (release_all(&["k"], mine), answers(&[1])),
        (inspect("k"), Reply::Int(0)),
        (remove("k"), Reply::Int(0)),
        (acquire_or_report("k", mine), Reply::Int(1)),
    ];
    for known in [false, true] {
        cx.bed().put(b"k", &Entry::Missing).await?;
        for (command, reply) in &steps {
            if !known {
                cx.bed().flush_scripts().await?;
            }
            match once(cx, &command.with_source()).await {
                Ok(found) => expect_eq(&described(command), reply, &found)?,
                Err(error) => return Err(not_answered(command, &error)),
            }
        }
    }
    cx.expect_held("k", mine).await
}

/// Each call is either answered, or ends with NOSCRIPT and has not run: the command that follows by
/// source finds everything unchanged.
pub(crate) async fn scripts_that_vanish_under_calls_run_once_or_not(cx: &NodeCx) -> CheckResult {
    for _ in 0..20 {
        let mut calls = Vec::new();
        for n in 0..20 {
            let (key, mine) = (format!("k{n}"), cx.token());
            cx.expect(&acquire(&key, mine), &Reply::ok()).await?;
            let node = std::sync::Arc::clone(cx.node());
            let release = release(&key, mine);
            calls.push(Box::pin(async move {
                let first = node.execute(&release, LONG).await;
                let last = match &first {
                    Err(error) if is_server_error(error, "NOSCRIPT") => {
                        node.execute(&release.with_source(), LONG).await
                    }
                    answer => answer.clone(),
                };
                match last {
                    Ok(Reply::Int(1)) => Ok(()),
                    last => Err(Failure::new(
                        "1 to a release, or NOSCRIPT and then 1",
                        format!("{first:?} and then {last:?}"),
                    )),
                }
            }) as BoxFuture<'static, CheckResult>);
        }
        let flushes = async {
            for _ in 0..5 {
                cx.bed().flush_scripts().await?;
                cx.sleep(Duration::from_micros(100)).await;
            }
            CheckResult::Ok(())
        };
        let (results, flushed) = futures::join!(cx.all(calls), flushes);
        flushed?;
        results?.into_iter().collect::<CheckResult>()?;
    }
    cx.expect_keys(&[]).await
}

/// The error must not read as a refusal: nobody else holds the lock.
pub(crate) async fn an_error_inside_a_script_is_an_error(cx: &NodeCx) -> CheckResult {
    expect_script_errors(cx, |mine| {
        vec![
            acquire_or_report("free", mine),
            acquire_or_report("held", mine),
            extend("held", mine, TTL * 2),
            exchange("held", &[mine], cx.token(), TTL * 2),
            release_keeping("held", mine, TTL / 2),
            release("held", mine),
        ]
    })
    .await
}

/// Sends these commands to a server whose scripts may not run `GET`. Each has to end with an error and
/// to change nothing: the key `held` still has the token, and there is no other key.
pub(super) async fn expect_script_errors(
    cx: &NodeCx,
    commands: impl FnOnce(Token) -> Vec<Command>,
) -> CheckResult {
    let (mine, denial) = (cx.token(), Denial::NoPermInScript);
    let since = cx.now();
    cx.expect(&acquire("held", mine), &Reply::ok()).await?;
    cx.inject(NodeFault::Deny(denial)).await?;
    for command in commands(mine) {
        expect_denied(cx, denial, &command).await?;
    }
    cx.heal().await?;
    cx.expect_aged("held", &living(mine.as_bytes(), TTL), since)
        .await?;
    cx.expect_keys(&[b"held"]).await
}

/// The script gets as far as its `SET`, which is refused.
pub(crate) async fn a_script_that_may_not_set_is_an_error(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    expect_set_denied(cx, &acquire_or_report("k", token)).await
}

/// Fails unless the command ends with an error and sets nothing while the server is out of memory.
pub(super) async fn expect_set_denied(cx: &NodeCx, command: &Command) -> CheckResult {
    with_set_denied(cx, command).await?;
    cx.expect_keys(&[]).await
}

/// Fails unless the command ends with an error while the server is out of memory.
pub(super) async fn with_set_denied(cx: &NodeCx, command: &Command) -> CheckResult {
    let denial = Denial::OutOfMemory;
    cx.inject(NodeFault::Deny(denial)).await?;
    expect_denied(cx, denial, command).await?;
    cx.heal().await
}

pub(super) async fn expect_denied(cx: &NodeCx, denial: Denial, command: &Command) -> CheckResult {
    let error = cx.expect_error(command, LONG).await?;
    let what = format!(
        "a server's error {} to {}",
        denial.code(),
        described(command)
    );
    expect(is_server_error(&error, denial.code()), &what, &error)
}
