//! The lock keeps every rule of `DistributedLock`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::DistributedLock;
use lock_core::runtime::ambient;
use lock_testkit::conformance::lock::LockBed;
use lock_testkit::conformance::node::NodeFault;
use lock_testkit::conformance::{CheckResult, Driver, Failure, LockHarness, TokioDriver};
use tempfile::TempDir;

use crate::file_lock::FileLock;
use crate::lease::{LeaseFile, now};

lock_testkit::lock_conformance! {
    harness: FileHarness,
    unsupported: {
        a_late_majority_is_no_lock: "there are no nodes",
        a_majority_of_dead_nodes_is_an_outage: "there are no nodes",
        a_majority_of_denying_nodes_is_an_outage: "there are no nodes",
        a_majority_of_hung_nodes_is_an_outage: "there are no nodes",
        a_minority_of_dead_nodes_does_no_harm: "there are no nodes",
        a_minority_of_denying_nodes_does_no_harm: "there are no nodes",
        a_minority_of_hung_nodes_does_no_harm: "there are no nodes",
        a_minority_of_late_nodes_does_no_harm: "there are no nodes",
        a_release_during_an_outage_is_made_good: "there are no nodes",
        a_wait_gives_up_when_too_few_nodes_answer: "there are no nodes",
        a_stale_minority_does_not_keep_a_lock_taken: "there are no nodes",
        an_acquire_dropped_while_nodes_are_slow_leaves_nothing: "there are no nodes",
        an_outage_leaves_a_held_lock_its_validity: "there are no nodes",
        bad_input_is_refused_before_any_node_is_asked: "there are no nodes",
        slow_refusals_are_no_outage: "there are no nodes",
        the_validity_counts_from_before_the_nodes_were_asked: "there are no nodes",
    },
}

#[derive(Debug)]
struct FileHarness;

/// A directory of its own for each check.
#[derive(Debug)]
struct FileBed {
    dir: TempDir,
}

#[async_trait]
impl LockHarness for FileHarness {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(TokioDriver::multi_thread())
    }

    async fn start(&self) -> CheckResult<Box<dyn LockBed>> {
        let dir = tempfile::tempdir();
        let dir = dir.map_err(|error| Failure::setup("make a directory", &error))?;
        Ok(Box::new(FileBed { dir }))
    }

    async fn join(&self, address: &str) -> CheckResult<Arc<dyn DistributedLock>> {
        match FileLock::new(address) {
            Ok(lock) => Ok(Arc::new(lock)),
            Err(error) => Err(Failure::setup("use the directory", &error)),
        }
    }
}

#[async_trait]
impl LockBed for FileBed {
    async fn lock(&self) -> CheckResult<Arc<dyn DistributedLock>> {
        FileHarness.join(&self.dir.path().to_string_lossy()).await
    }

    fn address(&self) -> Option<String> {
        Some(self.dir.path().to_string_lossy().into_owned())
    }

    async fn pass(&self, time: Duration) {
        ambient().sleep(time).await;
    }

    async fn leftovers(&self) -> CheckResult<Vec<String>> {
        let failed = |error| Failure::setup("look into the directory", &error);
        let mut left = Vec::new();
        for file in self.dir.path().read_dir().map_err(failed)? {
            let path = file.map_err(failed)?.path();
            // A file that is being changed may hold anything.
            let lease = match LeaseFile::try_open(&path).map_err(failed)? {
                Some(mut file) => file.read(now()).map_err(failed)?,
                None => {
                    left.push("a file that is locked".to_owned());
                    continue;
                }
            };
            left.extend(lease.map(|lease| lease.token));
        }
        Ok(left)
    }

    fn nodes(&self) -> Vec<String> {
        Vec::new()
    }

    async fn inject(&self, _node: usize, _fault: &NodeFault) -> CheckResult {
        Err(Failure::unsupported("break a node: there is none"))
    }

    async fn heal(&self, _node: usize) -> CheckResult {
        Err(Failure::unsupported("heal a node: there is none"))
    }
}
