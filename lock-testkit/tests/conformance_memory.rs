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
        unsupported: {
            processes_lose_no_update: "an in-process node is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "an in-process node is of one process",
        },
    }
}

mod redlock_on_threads {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(5, MemoryHarness::new(ThreadDriver::new())),
        unsupported: {
            processes_lose_no_update: "an in-process node is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "an in-process node is of one process",
        },
    }
}

mod redlock_over_three {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(3, MemoryHarness::new(TokioDriver::paused())),
        unsupported: {
            processes_lose_no_update: "an in-process node is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "an in-process node is of one process",
        },
    }
}

mod redlock_over_two {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(2, MemoryHarness::new(TokioDriver::paused())),
        unsupported: {
            processes_lose_no_update: "an in-process node is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "an in-process node is of one process",
            a_minority_of_hung_nodes_does_no_harm: "both nodes are needed",
            a_minority_of_dead_nodes_does_no_harm: "both nodes are needed",
            a_minority_of_denying_nodes_does_no_harm: "both nodes are needed",
            a_minority_of_late_nodes_does_no_harm: "both nodes are needed",
        },
    }
}

mod redlock_over_one {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(1, MemoryHarness::new(TokioDriver::paused())),
        unsupported: {
            processes_lose_no_update: "an in-process node is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "an in-process node is of one process",
            a_minority_of_hung_nodes_does_no_harm: "the one node is needed",
            a_minority_of_dead_nodes_does_no_harm: "the one node is needed",
            a_minority_of_denying_nodes_does_no_harm: "the one node is needed",
            a_minority_of_late_nodes_does_no_harm: "the one node is needed",
        },
    }
}
