//! The suite on Redlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, RedisNode, Redlock};

use super::harness::{LockBed, LockHarness};
use crate::conformance::node::{Access, NodeBed, NodeFault};
use crate::conformance::{CheckResult, Driver, Failure, NodeHarness};

/// Checks [`Redlock`] over nodes of any kind, and of several kinds in one lock.
#[derive(Clone, Debug)]
pub struct RedlockHarness {
    nodes: Vec<Arc<dyn NodeHarness>>,
}

impl RedlockHarness {
    /// Makes a harness of locks over `count` nodes of one kind.
    ///
    /// # Panics
    ///
    /// Panics if `count` is zero.
    pub fn over(count: usize, nodes: impl NodeHarness) -> Self {
        let nodes: Arc<dyn NodeHarness> = Arc::new(nodes);
        Self::mixed(vec![nodes; count])
    }

    /// Makes a harness of locks over one node of each harness. The checks run on the driver of the first
    /// one.
    ///
    /// # Panics
    ///
    /// Panics if there are no harnesses.
    #[must_use]
    pub fn mixed(nodes: Vec<Arc<dyn NodeHarness>>) -> Self {
        assert!(!nodes.is_empty(), "a Redlock needs a node");
        Self { nodes }
    }
}

#[async_trait]
impl LockHarness for RedlockHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        self.nodes[0].driver()
    }

    async fn start(&self) -> CheckResult<Box<dyn LockBed>> {
        let mut beds = Vec::new();
        let mut labels = Vec::new();
        for harness in &self.nodes {
            let bed = harness.start().await?;
            labels.push(bed.connect(&Access::default()).await?.label().to_owned());
            beds.push(bed);
        }
        let is_well = beds.iter().map(|_| AtomicBool::new(true)).collect();
        Ok(Box::new(RedlockBed {
            beds,
            labels,
            is_well,
        }))
    }

    async fn join(&self, address: &str) -> CheckResult<Arc<dyn DistributedLock>> {
        let mut nodes = Vec::new();
        for (harness, address) in self.nodes.iter().zip(address.split(',')) {
            nodes.push(harness.join(address).await?);
        }
        redlock(nodes)
    }
}

fn redlock(nodes: Vec<Arc<dyn RedisNode>>) -> CheckResult<Arc<dyn DistributedLock>> {
    match Redlock::new(nodes) {
        Ok(lock) => Ok(Arc::new(lock)),
        Err(error) => Err(Failure::setup("build a Redlock", &error)),
    }
}

#[derive(Debug)]
struct RedlockBed {
    beds: Vec<Box<dyn NodeBed>>,
    labels: Vec<String>,
    is_well: Vec<AtomicBool>,
}

#[async_trait]
impl LockBed for RedlockBed {
    async fn lock(&self) -> CheckResult<Arc<dyn DistributedLock>> {
        let mut nodes = Vec::new();
        for bed in &self.beds {
            nodes.push(bed.connect(&Access::default()).await?);
        }
        redlock(nodes)
    }

    fn address(&self) -> Option<String> {
        let addresses: Option<Vec<_>> = self.beds.iter().map(|bed| bed.address()).collect();
        addresses.map(|addresses| addresses.join(","))
    }

    async fn pass(&self, time: Duration) {
        self.beds[0].pass(time).await;
    }

    async fn leftovers(&self) -> CheckResult<Vec<String>> {
        let mut left = Vec::new();
        for (i, (bed, label)) in self.beds.iter().zip(&self.labels).enumerate() {
            if !self.is_well[i].load(Ordering::SeqCst) {
                continue;
            }
            for key in bed.keys().await? {
                left.push(format!("{} at {label}", String::from_utf8_lossy(&key)));
            }
        }
        Ok(left)
    }

    fn nodes(&self) -> Vec<String> {
        self.labels.clone()
    }

    async fn inject(&self, node: usize, fault: &NodeFault) -> CheckResult {
        self.is_well[node].store(false, Ordering::SeqCst);
        self.beds[node].inject(fault).await
    }

    async fn heal(&self, node: usize) -> CheckResult {
        self.beds[node].heal().await?;
        self.is_well[node].store(true, Ordering::SeqCst);
        Ok(())
    }
}
