//! The whole lock on real servers, over `FredNode`.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/redlock/mod.rs"]
mod redlock;
#[path = "../../lock-testkit/tests/rt/tokio.rs"]
mod rt;

/// Whose nodes are tested.
mod backend {
    use lock_fred::FredNode;

    pub(crate) const NAME: &str = "lock-fred";

    pub(crate) type Node = FredNode;

    pub(crate) fn node(url: String) -> Node {
        FredNode::new(url).unwrap()
    }
}
