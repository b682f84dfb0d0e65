//! What the suite needs from the author of a lock.

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
    /// Returns the runtime on which the checks run.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Makes a world for one check, in which nothing is locked and everything is healthy.
    ///
    /// # Errors
    ///
    /// [`Failure::setup`](crate::conformance::Failure::setup).
    async fn start(&self) -> CheckResult<Box<dyn LockBed>>;

    /// Makes a lock in a world that another process started, by its [address](LockBed::address). A
    /// second process gets its lock from this, see [`run_all`](super::run_all).
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`](crate::conformance::Failure::unsupported) if processes cannot share
    /// a world.
    async fn join(&self, address: &str) -> CheckResult<Arc<dyn DistributedLock>>;
}

/// The world of one check, seen from outside. Dropping it ends it.
///
/// A method that cannot do what it is asked answers with
/// [`Failure::unsupported`](crate::conformance::Failure::unsupported), so that nothing is skipped in
/// silence.
#[async_trait]
pub trait LockBed: Debug + Send + Sync + 'static {
    /// Makes a new lock in this world that shares nothing with those before, such as another process
    /// would have.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    async fn lock(&self) -> CheckResult<Arc<dyn DistributedLock>>;

    /// Returns the address by which another process finds this world, or `None` if it cannot.
    fn address(&self) -> Option<String>;

    /// Lets this much time pass.
    async fn pass(&self, time: Duration);

    /// Returns what is left of locks in this world, each in words for a reader; nothing when all are
    /// released. Nodes with a fault are left out until they are healed.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn leftovers(&self) -> CheckResult<Vec<String>>;

    /// Returns the labels of the nodes that vote, in order; none for a lock without nodes.
    fn nodes(&self) -> Vec<String>;

    /// Gives a node a fault. The suite asks for `Hang`, `Refuse`, `Deny` and `Delay`.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`](crate::conformance::Failure::unsupported), or why it failed.
    async fn inject(&self, node: usize, fault: &NodeFault) -> CheckResult;

    /// Ends all faults of a node.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn heal(&self, node: usize) -> CheckResult;
}
