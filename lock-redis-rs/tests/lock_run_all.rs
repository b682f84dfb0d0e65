//! The suite for locks under a runner of one's own. There is one test in this file, so that the
//! program comes to it when it is started again for a check with a second process.

#![cfg(unix)]

use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::{MemoryHarness, RedisHarness, RedlockHarness, Report, lock};
use rt::{driver, driver_in_memory};

mod rt;

const LONE: &str = "the one node is needed";
const PROCESS: &str = "an in-process node is of one process";

const PROCESSES: [&str; 2] = [
    "processes_lose_no_update",
    "a_killed_process_keeps_its_lock_until_the_ttl_ends",
];

const OF_A_LONE_NODE: &[(&str, &str)] = &[
    ("a_minority_of_hung_nodes_does_no_harm", LONE),
    ("a_minority_of_dead_nodes_does_no_harm", LONE),
    ("a_minority_of_denying_nodes_does_no_harm", LONE),
    ("a_minority_of_late_nodes_does_no_harm", LONE),
    ("a_stale_minority_does_not_keep_a_lock_taken", LONE),
    ("slow_refusals_are_no_outage", LONE),
];

fn passed(report: &Report, name: &str) -> bool {
    let outcome = report.outcomes().iter().find(|o| o.check.name == name);
    outcome.is_some_and(|outcome| outcome.is_good() && outcome.unsupported.is_none())
}

#[test]
fn a_report_says_what_came_of_each_check_and_processes_find_their_own_call() {
    // The second process passes this call by: it is meant for the next one.
    let memory = MemoryHarness::new(driver_in_memory());
    let of_memory = [OF_A_LONE_NODE, &PROCESSES.map(|name| (name, PROCESS))].concat();
    let report = lock::run_all(RedlockHarness::over(1, memory), &of_memory);
    let is_child = report.outcomes().is_empty();
    assert!(is_child || report.is_good(), "{report}");

    let servers = RedisHarness::new(
        driver(),
        |target| async move { RedisRsNode::new(target.url()) },
    );
    let report = lock::run_all(RedlockHarness::over(1, servers), OF_A_LONE_NODE);
    assert!(report.is_good(), "{report}");
    for name in PROCESSES {
        assert!(passed(&report, name), "{report}");
    }
    println!("{report}");
}
