//! The in-process node, and Redlock over it, keep the rules.

use lock_testkit::conformance::{MemoryHarness, RedlockHarness, ThreadDriver, TokioDriver};

/// The checks on a driver, with what a node without connections cannot do.
macro_rules! conformance_on {
    ($driver:expr) => {
        lock_testkit::conformance! {
            harness: MemoryHarness::new($driver),
            unsupported: {
                an_unknown_script_is_noscript_and_has_not_run: "the node runs no scripts",
                a_script_runs_by_its_source_too: "the node runs no scripts",
                scripts_that_vanish_under_calls_run_once_or_not: "the node runs no scripts",
                a_black_hole_ends_no_node: "there is no connection",
                a_command_that_was_answered_with_an_error_is_not_sent_again:
                    "nothing is sent",
                a_command_that_was_lost_is_not_sent_again: "nothing is sent",
                a_connection_that_the_server_closed_for_idleness_is_replaced:
                    "there is no connection",
                a_connection_that_was_cut_is_replaced: "there is no connection",
                a_half_open_connection_is_replaced: "there is no connection",
                a_password_shows_nowhere: "there is no password",
                a_refused_call_is_not_sent_and_names_its_cause:
                    "no transport is there to name a cause",
                a_replaced_connection_takes_the_releases_of_its_acquires:
                    "there is no connection",
                a_server_that_restarts_with_its_keys_is_found_again:
                    "it keeps its keys in memory alone",
                a_wrong_password_is_named_as_the_cause: "there is no password",
                an_acquire_whose_reply_was_lost_is_not_sent_again: "nothing is sent",
                an_error_breaks_no_connection: "there is no connection",
                building_a_node_opens_no_connection: "there is no connection",
                calls_on_a_connection_that_breaks_are_in_doubt: "there is no connection",
                calls_to_a_server_that_is_silent_open_few_connections:
                    "there is no connection",
                commands_for_one_key_arrive_in_the_order_of_the_calls: "nothing is sent",
                commands_that_are_allowed_work_beside_denied_ones:
                    "an error is the answer to all commands",
                connections_do_not_grow_with_faults: "there is no connection",
                many_calls_share_few_connections: "there is no connection",
                nothing_is_sent_twice_while_connections_break: "there is no connection",
                replies_that_were_held_back_reach_nobody_else: "there is no connection",
                resp2_replies_are_read_as_they_are: "there is no protocol",
                resp3_replies_are_read_as_those_of_resp2: "there is no protocol",
                the_right_password_opens_the_server: "there is no password",
            },
        }
    };
}

mod node_on_threads {
    use super::*;
    conformance_on! { ThreadDriver::new() }
}

mod node_in_virtual_time {
    use super::*;
    conformance_on! { TokioDriver::paused() }
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
            a_stale_minority_does_not_keep_a_lock_taken: "both nodes are needed",
            slow_refusals_are_no_outage: "both nodes are needed",
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
            a_stale_minority_does_not_keep_a_lock_taken: "the one node is needed",
            slow_refusals_are_no_outage: "the one node is needed",
        },
    }
}
