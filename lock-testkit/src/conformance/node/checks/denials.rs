//! A server that answers with an error.

use lock_core::node::NodeErrorKind;
use lock_core::{Command, NodeError, Reply, Token};

use crate::conformance::node::calls::told;
use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_all, acquire_or_report, described, extend, extended,
    release, release_all, remove,
};
use crate::conformance::node::harness::{Denial, Entry, NodeFault};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// Sets a lock and makes the server deny commands. A denied command has to end with an error that has
/// the code, and have no effect.
async fn denied(
    cx: &NodeCx,
    denial: Denial,
    commands: impl Fn(Token) -> Vec<Command>,
) -> CheckResult {
    let token = cx.token();
    cx.teach_scripts().await?;
    cx.expect(&acquire("held", token), &Reply::ok()).await?;
    cx.inject(NodeFault::Deny(denial)).await?;
    for command in commands(token) {
        let error = denied_error(cx, denial, &command).await?;
        expect_code(denial, &command, &error)?;
    }
    cx.heal().await?;
    cx.until_answered().await?;
    cx.expect_held("held", token).await?;
    let left = cx.lifetime("held").await?;
    expect(left <= TTL, "a lifetime that nothing extended", left)?;
    cx.expect_entry("free", &Entry::Missing).await
}

async fn denied_error(cx: &NodeCx, denial: Denial, command: &Command) -> CheckResult<NodeError> {
    let start = cx.runtime().now();
    loop {
        let call = cx.expect_error(command, LONG);
        let error = cx.ends_soon(&described(command), call).await??;
        // To ask for a log-in, the server had to break the connection.
        let broke = denial == Denial::NoAuth && error.kind() == NodeErrorKind::Connection;
        if !broke || cx.runtime().now().saturating_sub(start) > cx.patience() {
            return Ok(error);
        }
    }
}

fn expect_code(denial: Denial, command: &Command, error: &NodeError) -> CheckResult {
    let shown = format!("{} to {}", told(error), described(command));
    // With RESP3 a node logs in before it sends anything, so the error ends its connect.
    if denial == Denial::NoAuth && error.kind() == NodeErrorKind::NotSent {
        return expect(shown.contains("NOAUTH"), "a cause that says NOAUTH", shown);
    }
    expect(
        error.kind() == NodeErrorKind::Server && error.code() == Some(denial.code()),
        &format!(
            "an error of the kind Server with the code {}",
            denial.code()
        ),
        &shown,
    )?;
    let is_permission = matches!(
        denial,
        Denial::NoAuth | Denial::NoPerm | Denial::NoPermInScript
    );
    expect(
        error.is_permission() == is_permission,
        &format!("is_permission() to say {is_permission}, by the text of the server's error"),
        shown,
    )
}

/// Returns one command of each kind that changes something.
fn all(token: Token) -> Vec<Command> {
    let mut commands = acquires(token);
    commands.extend([
        extend("held", token, TTL * 2),
        release("held", token),
        release_all(&["free", "held"], token),
        remove("held"),
    ]);
    commands
}

fn acquires(token: Token) -> Vec<Command> {
    vec![
        acquire("free", token),
        acquire_or_report("free", token),
        acquire_all(&["held", "free"], token),
    ]
}

pub(crate) async fn noauth_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::NoAuth, all).await
}

pub(crate) async fn noperm_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::NoPerm, all).await
}

pub(crate) async fn a_command_denied_inside_a_script_is_an_error_of_permission(
    cx: &NodeCx,
) -> CheckResult {
    denied(cx, Denial::NoPermInScript, |token| {
        let mut scripts = all(token);
        scripts.retain(|command| command.operation().script_name().is_some());
        scripts
    })
    .await
}

pub(crate) async fn readonly_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::ReadOnly, all).await
}

pub(crate) async fn oom_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::OutOfMemory, acquires).await
}

pub(crate) async fn loading_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::Loading, all).await
}

pub(crate) async fn misconf_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::Misconf, all).await
}

pub(crate) async fn busy_is_an_error_with_its_code(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::Busy, all).await
}

pub(crate) async fn moved_is_an_error_with_its_code_and_not_followed(cx: &NodeCx) -> CheckResult {
    denied(cx, Denial::Moved, all).await
}

/// Denials of different sorts that a server can be made to answer at once.
const QUICK: [Denial; 4] = [
    Denial::ReadOnly,
    Denial::OutOfMemory,
    Denial::Loading,
    Denial::Moved,
];

pub(crate) async fn a_command_that_was_answered_with_an_error_is_not_sent_again(
    cx: &NodeCx,
) -> CheckResult {
    cx.warm_up().await?;
    for denial in QUICK {
        cx.inject(NodeFault::Deny(denial)).await?;
        let key = denial.code();
        cx.fails(&acquire(key, cx.token()), LONG).await?;
        cx.heal().await?;
        cx.warm_up().await?;
        let sent = cx.received_for(key).await?.len();
        expect_eq(&format!("commands sent that met {key}"), &1, &sent)?;
    }
    Ok(())
}

pub(crate) async fn an_error_breaks_no_connection(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    cx.warm_up().await?;
    let before = cx.bed().opened().await?;
    // Behind READONLY and LOADING a node may look for the right server.
    for denial in [Denial::OutOfMemory, Denial::Moved] {
        cx.inject(NodeFault::Deny(denial)).await?;
        cx.fails(&acquire("k", cx.token()), LONG).await?;
        cx.heal().await?;
        cx.warm_up().await?;
    }
    expect_eq("connections opened", &before, &cx.bed().opened().await?)
}

pub(crate) async fn commands_that_are_allowed_work_beside_denied_ones(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    cx.teach_scripts().await?;
    cx.expect(&acquire("held", token), &Reply::ok()).await?;
    cx.inject(NodeFault::Deny(Denial::OutOfMemory)).await?;
    cx.fails(&acquire("free", token), LONG).await?;
    cx.expect(&extend("held", token, TTL), &extended(1)).await?;
    cx.expect(&release("held", token), &Reply::Int(1)).await?;
    cx.heal().await
}

pub(crate) async fn a_node_listens_or_says_that_it_cannot(cx: &NodeCx) -> CheckResult {
    let listening = cx.node().subscribe(b"channel");
    match cx.ends_soon("subscribing", listening).await? {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == NodeErrorKind::Unsupported => Ok(()),
        Err(error) => Err(Failure::new(
            "a subscription, or an error of the kind Unsupported",
            told(&error),
        )),
    }
}
