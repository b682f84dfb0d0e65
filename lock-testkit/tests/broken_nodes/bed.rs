//! Broken nodes over a server that is well.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::RedisNode;
use lock_testkit::conformance::node::{Access, Entry, NodeBed, NodeFault};
use lock_testkit::conformance::{CheckResult, Driver, MemoryHarness, NodeHarness, TokioDriver};

use crate::mutants::Bug;
use crate::node::{BrokenNode, State};

/// Makes nodes that have one bug, over in-process nodes in virtual time.
#[derive(Debug)]
pub(crate) struct BrokenHarness {
    well: MemoryHarness,
    bug: Bug,
}

impl BrokenHarness {
    pub(crate) fn new(bug: Bug) -> Self {
        let well = MemoryHarness::new(TokioDriver::paused());
        Self { well, bug }
    }
}

#[async_trait]
impl NodeHarness for BrokenHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        self.well.driver()
    }

    async fn start(&self) -> CheckResult<Box<dyn NodeBed>> {
        Ok(Box::new(BrokenBed {
            well: Arc::from(self.well.start().await?),
            state: Arc::default(),
            bug: self.bug,
        }))
    }

    async fn join(&self, address: &str) -> CheckResult<Arc<dyn RedisNode>> {
        self.well.join(address).await
    }
}

#[derive(Debug)]
struct BrokenBed {
    well: Arc<dyn NodeBed>,
    state: Arc<State>,
    bug: Bug,
}

#[async_trait]
impl NodeBed for BrokenBed {
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>> {
        Ok(Arc::new(BrokenNode {
            well: self.well.connect(access).await?,
            server: Arc::clone(&self.well),
            state: Arc::clone(&self.state),
            bug: self.bug,
        }))
    }

    fn address(&self) -> Option<String> {
        self.well.address()
    }

    async fn pass(&self, time: Duration) {
        self.well.pass(time).await;
    }

    async fn inject(&self, fault: &NodeFault) -> CheckResult {
        self.well.inject(fault).await
    }

    async fn heal(&self) -> CheckResult {
        self.well.heal().await
    }

    async fn look(&self, key: &[u8]) -> CheckResult<Entry> {
        self.well.look(key).await
    }

    async fn put(&self, key: &[u8], entry: &Entry) -> CheckResult {
        self.well.put(key, entry).await
    }

    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>> {
        self.well.keys().await
    }

    /// The node below has no scripts, so that the one above plays that it had some.
    async fn flush_scripts(&self) -> CheckResult {
        self.state.lock().known_scripts.clear();
        Ok(())
    }

    async fn connections(&self) -> CheckResult<usize> {
        self.well.connections().await
    }

    async fn opened(&self) -> CheckResult<usize> {
        self.well.opened().await
    }

    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        self.well.received().await
    }
}
