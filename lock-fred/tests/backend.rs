//! What every backend has to hold on real servers and runtimes, over `FredNode`.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/backend/mod.rs"]
mod claims;
#[path = "../../lock-testkit/tests/backend/outside_of_tokio.rs"]
mod outside_of_tokio;
mod support;

/// Whose nodes are tested.
mod backend {
    use lock_fred::FredNode;

    pub(crate) type Node = FredNode;

    pub(crate) fn node(url: impl AsRef<str>) -> Node {
        FredNode::new(url).unwrap()
    }

    /// The keeper's, and two of fred's.
    pub(crate) const TASKS: usize = 3;
    pub(crate) const NEEDS_TIMERS: bool = true;
    pub(crate) const CLOSES_AT_CLUSTERDOWN: bool = true;
    pub(crate) const LOOKS_AT_REPLIES: bool = false;
}
