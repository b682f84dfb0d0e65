//! The suite on in-process nodes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{RedisNode, Runtime};

use super::harness::{Access, Entry, NodeBed, NodeFault, NodeHarness};
use crate::conformance::{CheckResult, Driver, Failure};
use crate::{Fault, MemoryNode};

/// Checks [`MemoryNode`], and makes nodes for checks of locks over it.
#[derive(Clone, Debug)]
pub struct MemoryHarness {
    driver: Arc<dyn Driver>,
}

impl MemoryHarness {
    /// Makes a harness on this driver, whose clock is also that of the nodes.
    pub fn new(driver: impl Driver) -> Self {
        Self {
            driver: Arc::new(driver),
        }
    }
}

#[async_trait]
impl NodeHarness for MemoryHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    async fn start(&self) -> CheckResult<Box<dyn NodeBed>> {
        Ok(Box::new(MemoryBed::start(self.driver.runtime())))
    }

    async fn join(&self, _address: &str) -> CheckResult<Arc<dyn RedisNode>> {
        Err(Failure::unsupported("share a node between processes"))
    }
}

/// A [`MemoryNode`] and its clock.
#[derive(Debug)]
struct MemoryBed {
    node: MemoryNode,
    runtime: Arc<dyn Runtime>,
}

impl MemoryBed {
    fn start(runtime: Arc<dyn Runtime>) -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static STARTED: AtomicUsize = AtomicUsize::new(1);
        let label = format!("memory-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        Self {
            node: MemoryNode::with_runtime(label, Arc::clone(&runtime)),
            runtime,
        }
    }
}

#[async_trait]
impl NodeBed for MemoryBed {
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>> {
        if *access != Access::default() {
            return Err(Failure::unsupported("log in, or choose a protocol"));
        }
        Ok(Arc::new(self.node.clone()))
    }

    fn address(&self) -> Option<String> {
        None
    }

    async fn pass(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    async fn inject(&self, fault: &NodeFault) -> CheckResult {
        match fault {
            NodeFault::Refuse => self.node.set_fault(Fault::Refuse),
            NodeFault::Hang => self.node.set_fault(Fault::Hang),
            NodeFault::LoseReply => self.node.set_fault(Fault::LoseReply),
            NodeFault::Delay(delay) => self.node.set_fault(Fault::Delay(*delay)),
            NodeFault::RestartEmpty => self.node.forget(),
            NodeFault::Deny(denial) => self.node.set_fault(Fault::error(denial.line())),
            _ => {
                return Err(Failure::unsupported(format!(
                    "do this to a node: {fault:?}"
                )));
            }
        }
        Ok(())
    }

    async fn heal(&self) -> CheckResult {
        self.node.heal();
        Ok(())
    }

    async fn look(&self, key: &[u8]) -> CheckResult<Entry> {
        let millis = self.node.pttl(key);
        Ok(match (self.node.get(key), millis) {
            (_, -2) => Entry::Missing,
            (None, _) => Entry::OtherType,
            (Some(value), millis) => Entry::Value {
                value,
                ttl: u64::try_from(millis).ok().map(Duration::from_millis),
            },
        })
    }

    async fn put(&self, key: &[u8], entry: &Entry) -> CheckResult {
        match entry {
            Entry::Missing => {
                self.node.remove(key);
            }
            Entry::OtherType => self.node.set_other_type(key),
            Entry::Value { value, ttl } => {
                self.node.set_foreign(key, value.as_slice());
                if let Some(ttl) = ttl {
                    self.node.expire(key, *ttl);
                }
            }
        }
        Ok(())
    }

    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>> {
        Ok(self.node.keys())
    }

    async fn flush_scripts(&self) -> CheckResult {
        Err(Failure::unsupported("forget scripts: the node has none"))
    }

    async fn connections(&self) -> CheckResult<usize> {
        Err(Failure::unsupported("count connections"))
    }

    async fn opened(&self) -> CheckResult<usize> {
        Err(Failure::unsupported("count connections"))
    }

    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        Err(Failure::unsupported("tell what the node was sent"))
    }
}
