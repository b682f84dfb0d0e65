//! A minority of servers that mean harm, over `FredNode`: what it stands of that.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

#[path = "../../lock-testkit/tests/hostile/mod.rs"]
mod claims;
mod support;

/// Whose nodes are tested.
mod backend {
    use lock_fred::FredNode;

    pub(crate) fn node(url: impl AsRef<str>) -> FredNode {
        FredNode::new(url).unwrap()
    }

    pub(crate) const LOOKS_AT_REPLIES: bool = false;
}
