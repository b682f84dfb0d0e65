//! Nodes that fail: what the checks of minorities and majorities share.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lock_core::DistributedLock;

use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::node::{Denial, NodeFault};
use crate::conformance::{CheckResult, Failure};

/// A time that is longer than a node may take, in any sensible lock whose ttl is long.
pub(super) const LATE: Duration = Duration::from_millis(1_500);

/// The way in which nodes refuse.
pub(super) const DENIED: NodeFault = NodeFault::Deny(Denial::NoPerm);

/// Returns all nodes, by number.
pub(crate) fn all_nodes(cx: &LockCx) -> CheckResult<Range<usize>> {
    match cx.bed().nodes().len() {
        0 => Err(Failure::unsupported("lose nodes: the lock has none")),
        count => Ok(0..count),
    }
}

/// Returns as many nodes as the lock can do without.
pub(super) fn minority(cx: &LockCx) -> CheckResult<Range<usize>> {
    let nodes = all_nodes(cx)?.len();
    match nodes - (nodes / 2 + 1) {
        0 => Err(Failure::unsupported(format!(
            "lose a node of {nodes} and keep a majority"
        ))),
        count => Ok(0..count),
    }
}

/// Returns as few nodes as the lock cannot do without.
pub(super) fn majority(cx: &LockCx) -> CheckResult<Range<usize>> {
    let nodes = all_nodes(cx)?.len();
    Ok(0..nodes - nodes / 2)
}

pub(super) async fn inject(cx: &LockCx, nodes: Range<usize>, fault: &NodeFault) -> CheckResult {
    for node in nodes {
        cx.bed().inject(node, fault).await?;
    }
    Ok(())
}

pub(super) async fn heal(cx: &LockCx, nodes: Range<usize>) -> CheckResult {
    for node in nodes {
        cx.bed().heal(node).await?;
    }
    Ok(())
}

/// Makes sure that all nodes are connected: one that has never answered may take longer.
pub(crate) async fn warm_up(cx: &LockCx, lock: &Arc<dyn DistributedLock>) -> CheckResult {
    let guard = cx.take(lock, long("warm-up")).await?;
    let start = cx.now();
    while guard.votes().granted < guard.votes().nodes
        && cx.now().saturating_sub(start) < Duration::from_secs(5)
    {
        cx.sleep(5 * MS).await;
    }
    drop(guard.release().await);
    cx.expect_nothing_left().await
}
