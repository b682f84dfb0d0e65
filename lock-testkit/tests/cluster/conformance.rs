//! The rules of a node on a whole cluster of three masters, for every backend that can reach one.
//!
//! A backend's crate takes this in with a few lines, in `tests/conformance.rs`:
//!
//! ```ignore
//! #[path = "../../lock-testkit/tests/cluster/conformance.rs"]
//! mod cluster;
//!
//! /// Nodes of whole clusters.
//! fn over_cluster() -> RedisHarness {
//!     RedisHarness::new(driver(), connect).over_cluster(3)
//! }
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_testkit::conformance::FailureKind;
use lock_testkit::conformance::node::{NODE_CHECKS, NodeHarness};

/// Checks that ask for several keys, alone or among others, that of the restart guard being one. A lock takes such keys
/// one after the other, see `tests/backend/cluster.rs`.
const OF_SEVERAL_SLOTS: [&str; 36] = [
    "a_bootstrap_ends_no_quarantine",
    "a_command_denied_inside_a_script_is_an_error_of_permission",
    "a_confirmation_of_what_has_gone_changes_nothing",
    "a_confirmation_raises_the_counters_of_a_held_lock",
    "a_counter_that_is_none_is_an_error_and_nothing_is_set",
    "a_fenced_acquire_knows_itself_by_lock_and_counter_alone",
    "a_fenced_acquire_that_is_refused_changes_nothing",
    "a_guard_of_another_run_is_a_quarantine",
    "a_guard_that_is_none_is_an_error_and_nothing_is_set",
    "a_guard_that_may_not_be_set_is_an_error",
    "a_guard_without_a_run_is_taken_over",
    "a_hundred_keys_are_set_and_released_in_one_step",
    "a_missing_counter_begins_at_the_clock_of_the_server",
    "a_quarantine_is_the_longest_that_was_asked_for_and_never_longer",
    "a_release_of_several_answers_for_each_in_order",
    "a_release_of_several_leaves_the_keys_of_others_alone",
    "a_release_of_several_that_keeps_cuts_longer_lives_alone",
    "a_server_that_was_bootstrapped_grants_at_once",
    "a_server_without_a_guard_grants_nothing_before_its_quarantine_is_over",
    "an_error_inside_a_script_for_several_is_an_error",
    "an_exchange_of_several_answers_for_each_in_order",
    "an_unknown_script_is_noscript_and_has_not_run",
    "busy_is_an_error_with_its_code",
    "counters_of_several_are_raised_to_one_number",
    "every_reply_has_the_form_that_the_docs_name",
    "misconf_is_an_error_with_its_code",
    "of_50_crossing_acquires_of_several_no_two_hold_one_key",
    "of_several_a_begun_millisecond_is_kept_as_a_whole_one",
    "of_several_a_long_value_is_told_by_its_first_128_bytes",
    "of_several_keys_none_is_set_if_one_is_taken",
    "oom_is_an_error_with_its_code",
    "several_free_keys_are_set_with_the_lifetime",
    "several_know_their_own_keys_and_set_the_missing_ones",
    "several_that_are_refused_leave_their_own_keys_alone",
    "several_that_may_not_be_set_are_an_error",
    "the_first_of_several_that_is_not_free_is_told",
];

/// What else cannot be so on a cluster, and why.
const GAPS: [(&str, &str); 2] = [
    (
        "moved_is_an_error_with_its_code_and_not_followed",
        "a node of a whole cluster follows it",
    ),
    (
        "a_lost_reply_is_an_error_to_every_command",
        "the fault waits at each server for a command, so that it meets more than one of them",
    ),
];

/// After a redirect the servers are asked anew, over connections of their own, unless they were asked just before: so
/// this is neither kept nor surely broken.
const BY_CHANCE: &str = "an_error_breaks_no_connection";

fn gap(name: &str) -> Option<&'static str> {
    let of_several = "a server of a cluster refuses keys of several slots by CROSSSLOT";
    let gap = GAPS.iter().find(|(gap, _)| *gap == name);
    let is_of_several = OF_SEVERAL_SLOTS.contains(&name);
    gap.map(|(_, why)| *why)
        .or(is_of_several.then_some(of_several))
}

#[test]
fn a_whole_cluster_keeps_the_rules_but_for_its_gaps() {
    let harness: Arc<dyn NodeHarness> = Arc::new(super::over_cluster());
    let next = AtomicUsize::new(0);
    let surprises = Mutex::new(Vec::new());
    let note = |surprise: String| surprises.lock().unwrap().push(surprise);
    let run = || {
        while let Some(check) = NODE_CHECKS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = check.info().name;
            match gap(name) {
                _ if name == BY_CHANCE => {}
                Some(why) => match check.run_with_patience(&harness, Duration::from_secs(3)) {
                    Ok(()) => note(format!("`{name}` works, though {why}")),
                    Err(failure) if failure.kind() == FailureKind::Setup => {
                        note(format!("`{name}`: {failure}"));
                    }
                    Err(_) => {}
                },
                None => {
                    if let Err(failure) = check.run(&harness) {
                        note(format!("`{name}`: {failure}"));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        // Most of the time they wait for servers.
        for _ in 0..6 {
            scope.spawn(run);
        }
    });
    let surprises = surprises.into_inner().unwrap();
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    for name in OF_SEVERAL_SLOTS
        .iter()
        .chain(GAPS.iter().map(|(gap, _)| gap))
    {
        let is_check = NODE_CHECKS.iter().any(|check| check.info().name == *name);
        assert!(is_check, "there is no check `{name}`");
    }
}
