//! The life of a lock on real servers: what every backend has to hold.
//!
//! A backend's crate takes these tests in with a few lines, in `tests/life.rs`:
//!
//! ```ignore
//! #[path = "../../lock-testkit/tests/life/mod.rs"]
//! mod life;
//!
//! #[path = "../../lock-testkit/tests/rt/tokio.rs"]
//! mod rt;
//!
//! mod backend {
//!     pub(crate) type Node = MyNode;
//!
//!     pub(crate) fn node(url: String) -> Node {
//!         MyNode::new(url).unwrap()
//!     }
//! }
//! ```
//!
//! Where a test goes back to a failure that was seen in the field, its comment names the case (C06).

mod cancel;
mod faults;
mod latency;
mod process;
mod renewal;
mod schedule;
mod scope;
mod shutdown;
mod stall;
mod support;
mod tokens;
mod traffic;

crate::rt::on_tokio! {
    mod runtime;
}
