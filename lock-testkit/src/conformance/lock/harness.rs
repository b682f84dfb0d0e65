//! What the author of a lock gives to the suite.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::DistributedLock;

use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, Driver};

/// Makes worlds in which locks exclude each other.
///
/// For [`Redlock`](lock_core::Redlock) there is [`RedlockHarness`](super::RedlockHarness).
#[async_trait]
pub trait LockHarness: Debug + Send + Sync + 'static {
    /// What the checks run on.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Makes a world for one check, in which nothing is locked and all is well.
    ///
    /// # Errors
    ///
    /// [`Failure::setup`](crate::conformance::Failure::setup).
    async fn start(&self) -> CheckResult<Box<dyn LockBed>>;

    /// A lock in a world that another process started, by its [address](LockBed::address). It
    /// is what a second process is given, see [`run_all`](super::run_all).
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`](crate::conformance::Failure::unsupported) if processes cannot share
    /// a world.
    async fn join(&self, address: &str) -> CheckResult<Arc<dyn DistributedLock>>;
}

/// The world of one check, seen from outside. Dropping it ends it.
///
/// Whatever it cannot do it answers with
/// [`Failure::unsupported`](crate::conformance::Failure::unsupported), so that nothing is passed
/// over in silence.
#[async_trait]
pub trait LockBed: Debug + Send + Sync + 'static {
    /// A new lock of this world that shares nothing with those before, as a process of its own
    /// would have one.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being built.
    async fn lock(&self) -> CheckResult<Arc<dyn DistributedLock>>;

    /// Where another process finds this world; `None` if it cannot.
    fn address(&self) -> Option<String>;

    /// Lets that much time pass.
    async fn pass(&self, time: Duration);

    /// What is left of locks in this world, each in words for a person: empty when all are
    /// released. Nodes with a fault are left out until they are healed.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn leftovers(&self) -> CheckResult<Vec<String>>;

    /// The labels of the nodes that vote, in order; empty for a lock without any.
    fn nodes(&self) -> Vec<String>;

    /// Makes something go wrong with a node from now on. The suite asks for `Hang`, `Refuse`,
    /// `Deny` and `Delay`.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`](crate::conformance::Failure::unsupported), or what went wrong.
    async fn inject(&self, node: usize, fault: &NodeFault) -> CheckResult;

    /// Ends all faults of a node.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn heal(&self, node: usize) -> CheckResult;
}
