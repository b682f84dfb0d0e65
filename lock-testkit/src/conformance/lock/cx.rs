//! What a check of a lock has in hand.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, Runtime};

use super::harness::{LockBed, LockHarness};
use crate::conformance::{CheckResult, Failure};

/// How often a condition is looked at that becomes true by itself.
const POLL: Duration = Duration::from_millis(5);

/// How long a condition may take to become true by itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a check of a lock works with: a world of its own, and a lock in it.
#[derive(Debug)]
pub struct LockCx {
    bed: Box<dyn LockBed>,
    lock: Arc<dyn DistributedLock>,
    runtime: Arc<dyn Runtime>,
}

impl LockCx {
    pub(crate) async fn start(
        harness: &dyn LockHarness,
        runtime: Arc<dyn Runtime>,
    ) -> CheckResult<Self> {
        let bed = harness.start().await?;
        let lock = bed.lock().await?;
        Ok(Self { bed, lock, runtime })
    }

    /// The world, seen from outside.
    pub(crate) fn bed(&self) -> &dyn LockBed {
        &*self.bed
    }

    /// The lock under test.
    pub(crate) fn lock(&self) -> &Arc<dyn DistributedLock> {
        &self.lock
    }

    /// Another one, as a rival process has it.
    pub(crate) async fn rival(&self) -> CheckResult<Arc<dyn DistributedLock>> {
        self.bed.lock().await
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Waits until nothing is left of any lock.
    pub(crate) async fn expect_nothing_left(&self) -> CheckResult {
        let start = self.runtime.now();
        loop {
            let left = self.bed.leftovers().await?;
            if left.is_empty() {
                return Ok(());
            }
            if self.runtime.now().saturating_sub(start) > PATIENCE {
                return Err(Failure::new("nothing to be left", left.join(", ")));
            }
            self.bed.pass(POLL).await;
        }
    }
}
