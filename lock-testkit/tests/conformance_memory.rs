//! The in-process node, and Redlock over it, keep the rules.

use lock_testkit::conformance::{MemoryHarness, RedlockHarness, ThreadDriver, TokioDriver};

mod node_on_threads {
    use super::*;
    lock_testkit::conformance! {
        harness: MemoryHarness::new(ThreadDriver::new()),
        unsupported: {
            an_unknown_script_is_noscript_and_has_not_run: "the node runs no scripts",
            a_script_runs_by_its_source_too: "the node runs no scripts",
            scripts_that_vanish_under_calls_run_once_or_not: "the node runs no scripts",
        },
    }
}

mod node_in_virtual_time {
    use super::*;
    lock_testkit::conformance! {
        harness: MemoryHarness::new(TokioDriver::paused()),
        unsupported: {
            an_unknown_script_is_noscript_and_has_not_run: "the node runs no scripts",
            a_script_runs_by_its_source_too: "the node runs no scripts",
            scripts_that_vanish_under_calls_run_once_or_not: "the node runs no scripts",
        },
    }
}

mod redlock_in_virtual_time {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(5, MemoryHarness::new(TokioDriver::paused())),
    }
}
