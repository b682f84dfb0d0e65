//! What only a real client on real servers and runtimes can show, for every backend that stands on
//! `lock_core::backend`. What the keeper decides is tested there, and the rules of a node by the
//! conformance suite.
//!
//! A backend's crate takes these tests in with a few lines, in `tests/backend.rs`:
//!
//! ```ignore
//! #[path = "../../lock-testkit/tests/backend/mod.rs"]
//! mod claims;
//! // A runtime as in `lock-testkit/tests/rt`, and `lock-testkit/tests/support`.
//! mod support;
//!
//! mod backend {
//!     pub(crate) type Node = MyNode;
//!
//!     pub(crate) fn node(url: impl AsRef<str>) -> Node {
//!         MyNode::new(url).unwrap()
//!     }
//!
//!     /// How many tasks a connection has.
//!     pub(crate) const TASKS: usize = 1;
//!     /// Whether the client needs the timers of its runtime.
//!     pub(crate) const NEEDS_TIMERS: bool = false;
//!     /// Whether the client closes a connection over which it heard `CLUSTERDOWN`.
//!     pub(crate) const CLOSES_AT_CLUSTERDOWN: bool = false;
//!     /// Whether replies are looked at before the client has read them.
//!     pub(crate) const LOOKS_AT_REPLIES: bool = true;
//! }
//! ```

mod allowing;
mod cluster;
mod connection;
mod credentials;
mod errors;
mod failover;
mod replies;
mod sentinels;

crate::support::on_tokio! {
    mod runtimes;
}
