//! Each check of faults finds a client that breaks its rule.
//!
//! The client is small and keeps all rules, which the whole suite attests; a [`Bug`] breaks one of
//! them. The table below says which checks have to find it.

#![cfg(unix)]
// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod bug;
mod client;
mod toy;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Runtime;
use lock_core::runtime::{BoxFuture, ambient};
use lock_testkit::conformance::node::{NODE_CHECKS, NodeHarness};
use lock_testkit::conformance::{Driver, FailureKind, RedisHarness};

use bug::Bug;
use toy::ToyNode;

/// The subjects whose checks stand here.
const SUBJECTS: [&str; 10] = [
    "cancelling",
    "connections",
    "cutting",
    "denials",
    "hanging",
    "ordering",
    "protocols",
    "refusing",
    "restarting",
    "secrets",
];

/// What is to happen by itself never will, so there is no need to wait for it for long.
const PATIENCE: Duration = Duration::from_secs(2);

/// A tokio runtime for each check: the kit's own needs a feature of the kit.
#[derive(Debug)]
struct Tokio;

impl Driver for Tokio {
    fn block_on(&self, check: BoxFuture<'_, ()>) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check);
        // A task that blocks its thread does not have to be waited for.
        runtime.shutdown_background();
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        ambient()
    }
}

fn harness(bug: Bug) -> RedisHarness {
    RedisHarness::new(
        Tokio,
        move |target| async move { ToyNode::new(&target, bug) },
    )
}

mod the_honest_client {
    use super::*;
    lock_testkit::conformance! {
        harness: harness(Bug::None),
    }
}

/// How often a check may look for a bug: in what order two connections arrive is a matter of chance.
const TRIES: usize = 5;

/// Runs the checks that have to find the bug.
fn assert_found(bug: Bug, checks: &[&str]) {
    let harness: Arc<dyn NodeHarness> = Arc::new(harness(bug));
    for name in checks {
        let check = NODE_CHECKS.iter().find(|check| check.info().name == *name);
        let check = check.unwrap_or_else(|| panic!("there is no check `{name}`"));
        let mut results = (0..TRIES).map(|_| check.run_with_patience(&harness, PATIENCE));
        match results.find(Result::is_err).unwrap_or(Ok(())) {
            Ok(()) => panic!("`{name}` does not find {bug:?}"),
            Err(failure) => {
                assert_eq!(failure.kind(), FailureKind::Broken, "`{name}`: {failure}");
                println!("`{name}` finds {bug:?}: {failure}");
            }
        }
    }
}

/// One test for each bug, and the list of all.
macro_rules! found {
    ($($test:ident: $bug:ident by [$($check:ident),* $(,)?],)*) => {
        $(#[test]
        fn $test() {
            assert_found(Bug::$bug, &[$(stringify!($check)),*]);
        })*

        const FOUND: &[&str] = &[$($(stringify!($check)),*),*];
    };
}

found! {
    commands_sent_again_after_a_reconnect: Resends by [
        a_command_that_was_lost_is_not_sent_again,
        an_acquire_whose_reply_was_lost_is_not_sent_again,
        an_acquire_whose_reply_was_lost_knows_its_token,
        nothing_is_sent_twice_while_connections_break,
    ],
    failed_calls_that_are_sent_after_all: RemembersFailed by [
        what_failed_while_the_server_was_down_is_never_sent,
        a_call_given_up_while_the_server_is_down_is_never_sent,
    ],
    an_offline_queue: OfflineQueue by [
        what_failed_while_the_server_was_down_is_never_sent,
        a_call_given_up_while_the_server_is_down_is_never_sent,
        calls_fail_fast_while_the_server_is_down,
    ],
    errors_that_are_tried_again: RetriesErrors by [
        a_command_that_was_answered_with_an_error_is_not_sent_again,
    ],
    errors_taken_for_refusals: ErrorAsRefusal by [
        noauth_is_an_error_with_its_code,
        noperm_is_an_error_with_its_code,
        a_command_denied_inside_a_script_is_an_error_of_permission,
        readonly_is_an_error_with_its_code,
        oom_is_an_error_with_its_code,
        loading_is_an_error_with_its_code,
        misconf_is_an_error_with_its_code,
        busy_is_an_error_with_its_code,
        moved_is_an_error_with_its_code_and_not_followed,
    ],
    errors_without_their_code: HidesCodes by [
        noperm_is_an_error_with_its_code,
        a_command_denied_inside_a_script_is_an_error_of_permission,
        busy_is_an_error_with_its_code,
    ],
    a_break_taken_for_a_refusal: BreakAsRefusal by [
        a_lost_reply_is_an_error_to_every_command,
        nothing_is_sent_twice_while_connections_break,
    ],
    doubtful_calls_said_not_to_be_sent: DoubtAsNotSent by [
        a_call_to_a_hung_server_ends_in_time_and_in_doubt,
        calls_on_a_connection_that_breaks_are_in_doubt,
        an_acquire_whose_reply_was_lost_knows_its_token,
        nothing_is_sent_twice_while_connections_break,
    ],
    a_broken_connection_that_stays: NeverReconnects by [
        a_connection_that_was_cut_is_replaced,
        a_server_that_restarts_without_its_keys_is_found_again,
        a_server_that_restarts_with_its_keys_is_found_again,
        a_connection_that_the_server_closed_for_idleness_is_replaced,
    ],
    calls_that_wait_for_the_server: WaitsForServer by [
        calls_fail_fast_while_the_server_is_down,
        a_refused_call_is_not_sent_and_names_its_cause,
    ],
    a_reconnect_that_comes_late: ReconnectsLate by [
        a_node_that_never_reached_its_server_does_when_it_is_up,
        calls_fail_fast_while_the_server_is_down,
    ],
    a_hung_connection_that_stays: KeepsHungConnection by [
        a_half_open_connection_is_replaced,
        a_black_hole_ends_no_node,
    ],
    replies_that_shift: ShiftsReplies by [
        what_a_hung_server_answers_late_reaches_nobody_else,
        replies_that_were_held_back_reach_nobody_else,
        replies_that_are_slow_reach_nobody_else,
        a_call_dropped_in_flight_leaves_the_others_their_replies,
        dropping_every_call_leaves_the_node_usable,
    ],
    a_connection_for_each_call: ConnectsForEachCall by [
        many_calls_share_few_connections,
        calls_to_a_server_that_is_silent_open_few_connections,
    ],
    connections_that_leak: LeaksConnections by [connections_do_not_grow_with_faults],
    two_connections_by_turns: TwoConnections by [
        a_release_does_not_overtake_its_acquire,
        commands_for_one_key_arrive_in_the_order_of_the_calls,
    ],
    a_redirection_that_is_followed: FollowsMoved by [
        moved_is_an_error_with_its_code_and_not_followed,
    ],
    errors_without_a_cause: SwallowsCause by [
        a_refused_call_is_not_sent_and_names_its_cause,
        a_wrong_password_is_named_as_the_cause,
    ],
    a_password_in_debug: PasswordInDebug by [a_password_shows_nowhere],
    a_password_in_errors: PasswordInErrors by [a_password_shows_nowhere],
    a_password_in_the_label: PasswordInLabel by [a_password_shows_nowhere],
    a_constructor_that_connects: ConnectsWhenBuilt by [
        a_node_is_built_while_its_server_is_down_or_hangs,
        building_a_node_opens_no_connection,
    ],
    a_constructor_that_waits: WaitsWhenBuilt by [
        a_node_is_built_while_its_server_is_down_or_hangs,
    ],
    calls_without_an_end: IgnoresWithin by [a_call_to_a_hung_server_ends_in_time_and_in_doubt],
    calls_that_end_too_soon: OwnTimeout by [who_waits_long_enough_is_answered_by_a_slow_server],
    a_replaced_connection_without_releases: ForgetsUndo by [
        a_replaced_connection_takes_the_releases_of_its_acquires,
    ],
    errors_that_close_the_connection: ClosesOnError by [an_error_breaks_no_connection],
    an_error_that_ends_all_calls: SulksAfterError by [
        commands_that_are_allowed_work_beside_denied_ones,
    ],
    a_dropped_call_that_takes_the_connection_along: ClosesWhenDropped by [
        a_call_dropped_in_flight_leaves_the_others_their_replies,
    ],
    calls_one_after_the_other: OneAtATime by [a_hung_call_holds_up_no_other],
    calls_that_wait_out_of_order: WaitsUnfairly by [
        calls_that_wait_for_the_connection_keep_their_order,
    ],
    a_nil_read_as_an_empty_string: ReadsNilAsEmpty by [resp2_replies_are_read_as_they_are],
    a_null_read_as_text: ReadsNullAsText by [resp3_replies_are_read_as_those_of_resp2],
    a_password_that_is_not_sent: SendsNoPassword by [the_right_password_opens_the_server],
    listening_that_fails: FailsToListen by [a_node_listens_or_says_that_it_cannot],
    listening_that_panics: PanicsWhenListening by [a_node_listens_or_says_that_it_cannot],
    a_label_for_each_node: LabelOfItsOwn by [two_nodes_of_one_server_have_one_label],
}

#[test]
fn each_check_of_these_subjects_finds_a_bug() {
    let found: BTreeSet<_> = FOUND.iter().copied().collect();
    let checks = NODE_CHECKS
        .iter()
        .filter(|check| SUBJECTS.contains(&check.subject()));
    let idle: Vec<_> = checks
        .map(|check| check.info().name)
        .filter(|name| !found.contains(name))
        .collect();
    assert!(idle.is_empty(), "no broken client is found by {idle:?}");
}
