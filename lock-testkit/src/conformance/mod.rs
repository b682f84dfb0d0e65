//! Conformance suites, for authors of backends and of locks of another kind.
//!
//! The [`node`] suite checks anything that implements [`RedisNode`](lock_core::RedisNode) against
//! its numbered rules, the [`lock`] suite anything that implements
//! [`DistributedLock`](lock_core::DistributedLock). The macros [`conformance!`](crate::conformance!)
//! and [`lock_conformance!`](crate::lock_conformance!) make one test of each check.

mod driver;
mod failure;
pub mod lock;
mod macros;
pub mod node;
mod report;
mod rule;
mod run;
mod suite;

#[cfg(feature = "smol")]
pub use driver::SmolDriver;
#[cfg(feature = "tokio")]
pub use driver::TokioDriver;
pub use driver::{Driver, ThreadDriver};
pub use failure::{CheckResult, Failure, FailureKind, expect, expect_eq};
pub use lock::{LockHarness, RedlockHarness};
#[cfg(unix)]
pub use node::RedisHarness;
pub use node::{MemoryHarness, NodeHarness};
pub use report::Report;
pub use rule::Rule;
pub use run::{CheckInfo, Outcome};
#[doc(hidden)]
pub use suite::{TestCase, declare_unsupported};
