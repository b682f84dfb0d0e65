//! The world of the broken locks: nodes in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, Redlock, Runtime};
use lock_testkit::conformance::lock::LockBed;
use lock_testkit::conformance::node::NodeFault;
use lock_testkit::conformance::{
    CheckResult, Driver, Failure, LockHarness, ThreadDriver, TokioDriver,
};
use lock_testkit::{Fault, MemoryNode};

use crate::lock::BrokenLock;
use crate::mutants::Bug;
use crate::node::BrokenNode;

const NODES: usize = 5;

/// Makes worlds of locks with a bug.
#[derive(Clone, Debug)]
pub(crate) struct BrokenHarness {
    bug: Bug,
    driver: Arc<dyn Driver>,
}

impl BrokenHarness {
    pub(crate) fn new(bug: Bug) -> Self {
        let driver: Arc<dyn Driver> = match bug {
            // A second process takes real time.
            Bug::ExclusionPerProcess => Arc::new(ThreadDriver::new()),
            _ => Arc::new(TokioDriver::paused()),
        };
        Self { bug, driver }
    }

    fn bed(&self) -> BrokenBed {
        let runtime = self.driver.runtime();
        let nodes = MemoryNode::several_with_runtime(NODES, &runtime);
        let bug = self.bug;
        let is_well = nodes.iter().map(|_| AtomicBool::new(true)).collect();
        BrokenBed {
            bug,
            runtime,
            nodes,
            is_well,
        }
    }
}

#[async_trait]
impl LockHarness for BrokenHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    async fn start(&self) -> CheckResult<Box<dyn LockBed>> {
        Ok(Box::new(self.bed()))
    }

    async fn join(&self, _address: &str) -> CheckResult<Arc<dyn DistributedLock>> {
        // Another world, in which nothing is known of the first one.
        self.bed().lock().await
    }
}

/// Some nodes, and a way to make broken locks over them.
#[derive(Debug)]
struct BrokenBed {
    bug: Bug,
    runtime: Arc<dyn Runtime>,
    nodes: Vec<MemoryNode>,
    is_well: Vec<AtomicBool>,
}

#[async_trait]
impl LockBed for BrokenBed {
    async fn lock(&self) -> CheckResult<Arc<dyn DistributedLock>> {
        let nodes = self.nodes.iter().enumerate();
        let mut builder = Redlock::builder()
            .nodes(nodes.map(|(number, node)| BrokenNode::new(self.bug, number, node)));
        if self.bug == Bug::NeedsAllNodes {
            builder = builder.quorum(NODES);
        }
        let inner = builder.build();
        let inner = inner.map_err(|error| Failure::setup("build a Redlock", &error))?;
        let runtime = Arc::clone(&self.runtime);
        Ok(Arc::new(BrokenLock::new(
            self.bug,
            inner,
            &self.nodes,
            runtime,
        )))
    }

    fn address(&self) -> Option<String> {
        (self.bug == Bug::ExclusionPerProcess).then(|| "everywhere".to_owned())
    }

    async fn pass(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    async fn leftovers(&self) -> CheckResult<Vec<String>> {
        let well = self.nodes.iter().zip(&self.is_well);
        let well = well.filter(|(_, is_well)| is_well.load(Ordering::SeqCst));
        let keys = well.flat_map(|(node, _)| node.keys());
        Ok(keys.map(|key| key.escape_ascii().to_string()).collect())
    }

    fn nodes(&self) -> Vec<String> {
        (1..=NODES)
            .map(|number| format!("memory-{number}"))
            .collect()
    }

    async fn inject(&self, node: usize, fault: &NodeFault) -> CheckResult {
        let fault = match fault {
            NodeFault::Refuse => Fault::Refuse,
            NodeFault::Hang => Fault::Hang,
            NodeFault::Delay(delay) => Fault::Delay(*delay),
            NodeFault::Deny(denial) => Fault::error(denial.line()),
            other => return Err(Failure::unsupported(format!("do {other:?}"))),
        };
        self.is_well[node].store(false, Ordering::SeqCst);
        self.nodes[node].set_fault(fault);
        Ok(())
    }

    async fn heal(&self, node: usize) -> CheckResult {
        self.nodes[node].heal();
        self.is_well[node].store(true, Ordering::SeqCst);
        Ok(())
    }
}
