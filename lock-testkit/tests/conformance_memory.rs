//! The in-process node, and Redlock over it, keep the rules.

#![cfg(feature = "tokio")]

use lock_testkit::conformance::{MemoryHarness, RedlockHarness, ThreadDriver, TokioDriver};

mod node_on_threads {
    use super::*;
    lock_testkit::conformance! {
        harness: MemoryHarness::new(ThreadDriver::new()),
    }
}

mod redlock_in_virtual_time {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(5, MemoryHarness::new(TokioDriver::paused())),
    }
}
