//! Passwords, and the places where they must not show.

use std::error::Error;

use lock_core::{NodeError, RedisNode};

use crate::conformance::node::calls::told;
use crate::conformance::node::cx::{LONG, NodeCx, acquire};
use crate::conformance::node::harness::{Access, NodeFault, Protocol};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// The beginning of [`Access::PASSWORD`], which is the same when it is escaped.
const SECRET: &str = "s3cr3t";

const WRONG: &str = "s3cr3t/wr0ng";

fn accesses(password: &'static str) -> Vec<Access> {
    let plain = Access::password(password);
    let mut accesses = vec![plain.clone()];
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        accesses.push(Access {
            protocol: Some(protocol),
            ..plain.clone()
        });
    }
    accesses
}

async fn error_of(cx: &NodeCx, node: &dyn RedisNode) -> CheckResult<NodeError> {
    let command = acquire("k", cx.token());
    match cx.ends_soon("a call", node.execute(&command, LONG)).await? {
        Err(error) => Ok(error),
        Ok(reply) => Err(Failure::new("an error", format!("{reply:?}"))),
    }
}

pub(crate) async fn the_right_password_opens_the_server(cx: &NodeCx) -> CheckResult {
    let node = cx
        .bed()
        .connect(&Access::password(Access::PASSWORD))
        .await?;
    cx.until_answers(&*node).await
}

pub(crate) async fn a_wrong_password_is_named_as_the_cause(cx: &NodeCx) -> CheckResult {
    // So that the server asks for the right one.
    cx.bed()
        .connect(&Access::password(Access::PASSWORD))
        .await?;
    let node = cx.bed().connect(&Access::password(WRONG)).await?;
    // The second call may get an error that the node remembers from the first.
    for _ in 0..2 {
        let shown = told(&error_of(cx, &*node).await?);
        expect(
            shown.contains("WRONGPASS") || shown.contains("NOAUTH"),
            "the server's code, WRONGPASS or NOAUTH, in the error or its causes",
            shown,
        )?;
    }
    Ok(())
}

pub(crate) async fn a_password_shows_nowhere(cx: &NodeCx) -> CheckResult {
    let mut shown = String::new();
    for password in [Access::PASSWORD, WRONG] {
        for access in accesses(password) {
            let Ok(node) = cx.bed().connect(&access).await else {
                // Not every client knows every protocol. The plain one is checked above.
                continue;
            };
            shown += &format!("{node:?} {node:#?} {}", node.label());
            let command = acquire("k", cx.token());
            if let Err(error) = cx.ends_soon("a call", node.execute(&command, LONG)).await? {
                shown += &all_of(&error);
            }
        }
    }
    let node = cx
        .bed()
        .connect(&Access::password(Access::PASSWORD))
        .await?;
    cx.inject(NodeFault::Refuse).await?;
    shown += &all_of(&error_of(cx, &*node).await?);
    expect(
        !shown.contains(SECRET),
        "no password in any text of a node or its errors",
        shown,
    )
}

/// Returns everything that an error and its causes say, in every form.
fn all_of(error: &NodeError) -> String {
    let mut shown = format!("{error} {error:?} {error:#?} ");
    let mut cause = error.source();
    while let Some(error) = cause {
        shown += &format!("{error} {error:?} {error:#?} ");
        cause = error.source();
    }
    shown
}

pub(crate) async fn two_nodes_of_one_server_have_one_label(cx: &NodeCx) -> CheckResult {
    let other = cx.bed().connect(&Access::default()).await?;
    let label = cx.node().label();
    expect(!label.is_empty(), "a label", label)?;
    expect_eq(
        "the label of another node of the server",
        &label,
        &other.label(),
    )
}
