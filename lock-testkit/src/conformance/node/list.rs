//! The list of checks of nodes.

use super::{NodeCheck, checks};
use crate::conformance::rule::Rule;
use crate::conformance::run::CheckInfo;
use crate::conformance::suite::is_required;

/// Passes the list of checks to a macro: whether a check is required, its rule, and its path.
///
/// A check that is added here reaches every backend that runs the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __node_checks {
    ($callback:ident) => {
        $callback! {
            required N2 replies::a_free_key_is_set,
            required N2 replies::a_taken_key_is_refused_and_left_alone,
            required N1 replies::a_refusal_leaves_value_and_lifetime_alone,
            required N2 replies::an_acquire_does_not_set_its_own_key_again,
            required N2 replies::a_key_of_another_type_is_refused_and_left_alone,
            required N2 replies::a_free_key_is_set_by_script,
            required N2 replies::an_acquire_by_script_knows_its_own_token_and_changes_nothing,
            required N2 replies::an_acquire_by_script_tells_the_holder_and_the_time_it_has_left,
            required N2 replies::an_acquire_by_script_tells_of_a_key_that_lives_for_ever,
            required N2 replies::a_long_value_is_told_by_its_first_128_bytes,
            required N2 replies::every_reply_has_the_form_that_the_docs_name,
            required N4 expiry::lifetimes_are_exact_to_the_millisecond,
            required N4 expiry::extensions_are_exact_to_the_millisecond,
            required N4 expiry::what_a_release_keeps_is_exact_to_the_millisecond,
            required N4 expiry::the_shortest_lifetime_works,
            required N4 expiry::the_longest_lifetime_works,
            required N4 expiry::a_key_expires_by_itself_and_is_free_then,
            required N4 expiry::a_key_expires_without_the_node_that_set_it,
            required N4 expiry::no_command_leaves_a_key_without_a_lifetime,
            required N4 expiry::a_key_that_lost_its_lifetime_gets_one_from_its_holder,
            required N2 extending::an_extension_lengthens_the_life_of_its_own_key,
            required N2 extending::an_extension_never_shortens_a_life,
            required N2 extending::an_extension_revives_no_missing_key,
            required N2 extending::an_extension_leaves_the_key_of_another_alone,
            required N2 extending::an_extension_leaves_a_key_of_another_type_alone,
            required N2 extending::an_extension_of_many_answers_for_each_in_order,
            required N2 extending::an_extension_of_nothing_is_answered_with_nothing,
            required N2 extending::an_extension_of_500_reaches_each,
            required N2 exchanging::an_exchange_gives_a_key_the_new_token_and_extends_it,
            required N2 exchanging::an_exchange_never_shortens_a_life,
            required N2 exchanging::an_exchange_leaves_what_has_another_value_alone,
            required N2 exchanging::an_exchange_of_several_answers_for_each_in_order,
            required N3 exchanging::an_exchange_that_may_not_set_is_an_error,
            required N2 releasing::a_release_deletes_its_own_key,
            required N2 releasing::a_second_release_finds_no_key,
            required N2 releasing::a_release_leaves_the_key_of_another_alone,
            required N2 releasing::a_release_leaves_a_key_of_another_type_alone,
            required N2 releasing::a_release_deletes_no_other_key_of_the_same_token,
            required N2 releasing::a_release_that_keeps_cuts_a_longer_life,
            required N2 releasing::a_release_that_keeps_never_lengthens_a_life,
            required N2 releasing::a_release_that_keeps_creates_no_key,
            required N2 releasing::a_begun_millisecond_is_kept_as_a_whole_one,
            required N2 several::several_free_keys_are_set_with_the_lifetime,
            required N1 several::of_several_keys_none_is_set_if_one_is_taken,
            required N1 several::several_that_are_refused_leave_their_own_keys_alone,
            required N2 several::the_first_of_several_that_is_not_free_is_told,
            required N2 several::of_several_a_long_value_is_told_by_its_first_128_bytes,
            required N2 several::several_know_their_own_keys_and_set_the_missing_ones,
            required N1 several::of_50_crossing_acquires_of_several_no_two_hold_one_key,
            required N2 several::a_release_of_several_answers_for_each_in_order,
            required N2 several::a_release_of_several_leaves_the_keys_of_others_alone,
            required N2 several::a_release_of_several_that_keeps_cuts_longer_lives_alone,
            required N2 several::of_several_a_begun_millisecond_is_kept_as_a_whole_one,
            required N2 several::a_hundred_keys_are_set_and_released_in_one_step,
            required N3 several::an_error_inside_a_script_for_several_is_an_error,
            required N3 several::several_that_may_not_be_set_are_an_error,
            required N2 fencing::a_fenced_acquire_raises_the_counter_and_answers_its_number,
            required N4 fencing::a_missing_counter_begins_at_the_clock_of_the_server,
            required N2 fencing::a_fenced_acquire_is_above_its_floor,
            required N2 fencing::counters_of_several_are_raised_to_one_number,
            required N1 fencing::a_fenced_acquire_that_is_refused_changes_nothing,
            required N2 fencing::a_fenced_acquire_knows_itself_by_lock_and_counter_alone,
            required N3 fencing::a_counter_that_is_none_is_an_error_and_nothing_is_set,
            required N2 fencing::a_confirmation_raises_the_counters_of_a_held_lock,
            required N2 fencing::a_confirmation_of_what_has_gone_changes_nothing,
            required N2 fencing::a_confirmation_behind_an_exchange_changes_nothing,
            required N3 fencing::an_error_inside_a_fencing_script_is_an_error,
            required N3 fencing::a_fencing_script_that_may_not_set_is_an_error,
            required N1 guarding::a_server_without_a_guard_grants_nothing_before_its_quarantine_is_over,
            required N2 guarding::a_server_that_was_bootstrapped_grants_at_once,
            required N2 guarding::a_bootstrap_ends_no_quarantine,
            required N2 guarding::a_guard_of_another_run_is_a_quarantine,
            required N2 guarding::a_guard_without_a_run_is_taken_over,
            required N2 guarding::a_quarantine_is_the_longest_that_was_asked_for_and_never_longer,
            required N3 guarding::a_guard_that_is_none_is_an_error_and_nothing_is_set,
            required N3 guarding::a_guard_that_may_not_be_set_is_an_error,
            required N2 inspecting::an_inspection_tells_the_holder_and_the_time_it_has_left,
            required N2 inspecting::an_inspection_tells_of_a_key_that_lives_for_ever,
            required N2 inspecting::an_inspection_tells_of_a_key_of_another_type,
            required N2 inspecting::an_inspection_tells_a_long_value_by_its_first_128_bytes,
            required N2 inspecting::an_inspection_finds_no_missing_key,
            required N1 inspecting::an_inspection_changes_nothing,
            optional N2 inspecting::a_scan_finds_the_strings_with_its_prefix_and_no_others,
            optional N2 inspecting::a_description_tells_the_time_and_the_role,
            required N2 inspecting::a_removal_deletes_the_key_whoever_holds_it,
            required N2 inspecting::a_removal_deletes_no_other_key,
            required N2 inspecting::a_removal_leaves_a_key_of_another_type_alone,
            required N2 inspecting::a_removal_finds_no_missing_key,
            required N3 inspecting::an_error_inside_an_inspection_or_a_removal_is_an_error,
            required N9 bytes::keys_are_bytes,
            required N9 bytes::keys_of_unicode_stay_as_they_are,
            required N9 bytes::keys_may_hold_whatever_means_something_elsewhere,
            required N9 bytes::keys_of_64_kib_work,
            required N9 bytes::keys_that_look_alike_are_different_keys,
            required N9 bytes::values_are_bytes,
            required N1 concurrency::of_100_acquires_at_once_one_wins,
            required N1 concurrency::of_100_acquires_by_script_one_wins_and_all_others_are_told,
            required N1 concurrency::of_100_releases_at_once_one_finds_the_key,
            required N1 concurrency::late_calls_of_a_holder_never_touch_its_successor,
            required N8 concurrency::each_of_20000_calls_gets_its_own_reply,
            required N6 concurrency::dropped_calls_leave_the_replies_of_others_alone,
            required N12 concurrency::a_release_behind_a_dropped_acquire_leaves_nothing,
            optional N10 scripts::an_unknown_script_is_noscript_and_has_not_run,
            optional N2 scripts::a_script_runs_by_its_source_too,
            optional N1 scripts::scripts_that_vanish_under_calls_run_once_or_not,
            optional N3 scripts::an_error_inside_a_script_is_an_error,
            optional N3 scripts::a_script_that_may_not_set_is_an_error,

            optional N10 refusing::a_refused_call_is_not_sent_and_names_its_cause,
            optional N7 refusing::calls_fail_fast_while_the_server_is_down,
            required N5 refusing::what_failed_while_the_server_was_down_is_never_sent,
            required N5 refusing::a_call_given_up_while_the_server_is_down_is_never_sent,
            required N7 refusing::a_node_that_never_reached_its_server_does_when_it_is_up,
            required N7 refusing::a_node_is_built_while_its_server_is_down_or_hangs,
            optional N7 refusing::building_a_node_opens_no_connection,

            required N3 hanging::a_call_to_a_hung_server_ends_in_time_and_in_doubt,
            required N8 hanging::a_hung_call_holds_up_no_other,
            required N2 hanging::what_a_hung_server_answers_late_reaches_nobody_else,
            optional N2 hanging::replies_that_were_held_back_reach_nobody_else,
            required N2 hanging::replies_that_are_slow_reach_nobody_else,
            required N2 hanging::who_waits_long_enough_is_answered_by_a_slow_server,

            optional N3 cutting::calls_on_a_connection_that_breaks_are_in_doubt,
            optional N7 cutting::a_connection_that_was_cut_is_replaced,
            optional N5 cutting::a_command_that_was_lost_is_not_sent_again,
            optional N5 cutting::an_acquire_whose_reply_was_lost_is_not_sent_again,
            required N3 cutting::an_acquire_whose_reply_was_lost_knows_its_token,
            required N3 cutting::a_lost_reply_is_an_error_to_every_command,
            optional N5 cutting::nothing_is_sent_twice_while_connections_break,
            optional N7 cutting::a_half_open_connection_is_replaced,
            optional N7 cutting::a_black_hole_ends_no_node,

            required N7 restarting::a_server_that_restarts_without_its_keys_is_found_again,
            optional N7 restarting::a_server_that_restarts_with_its_keys_is_found_again,
            optional N7 restarting::a_connection_that_the_server_closed_for_idleness_is_replaced,

            required N10 denials::noauth_is_an_error_with_its_code,
            required N10 denials::noperm_is_an_error_with_its_code,
            required N10 denials::a_command_denied_inside_a_script_is_an_error_of_permission,
            required N10 denials::readonly_is_an_error_with_its_code,
            required N10 denials::oom_is_an_error_with_its_code,
            required N10 denials::loading_is_an_error_with_its_code,
            required N10 denials::misconf_is_an_error_with_its_code,
            required N10 denials::busy_is_an_error_with_its_code,
            required N10 denials::moved_is_an_error_with_its_code_and_not_followed,
            optional N5 denials::a_command_that_was_answered_with_an_error_is_not_sent_again,
            optional N10 denials::an_error_breaks_no_connection,
            optional N10 denials::commands_that_are_allowed_work_beside_denied_ones,
            required N10 denials::a_node_listens_or_says_that_it_cannot,

            required N6 cancelling::a_call_dropped_in_flight_leaves_the_others_their_replies,
            required N6 cancelling::dropping_every_call_leaves_the_node_usable,

            required N12 ordering::a_release_does_not_overtake_its_acquire,
            required N12 ordering::calls_that_wait_for_the_connection_keep_their_order,
            optional N12 ordering::commands_for_one_key_arrive_in_the_order_of_the_calls,
            optional N12 ordering::a_replaced_connection_takes_the_releases_of_its_acquires,

            optional N2 protocols::resp2_replies_are_read_as_they_are,
            optional N2 protocols::resp3_replies_are_read_as_those_of_resp2,

            optional N10 secrets::the_right_password_opens_the_server,
            optional N10 secrets::a_wrong_password_is_named_as_the_cause,
            optional N11 secrets::a_password_shows_nowhere,
            required N11 secrets::two_nodes_of_one_server_have_one_label,

            optional N8 connections::many_calls_share_few_connections,
            optional N7 connections::connections_do_not_grow_with_faults,
            optional N7 connections::calls_to_a_server_that_is_silent_open_few_connections,
        }
    };
}

macro_rules! table {
    ($($need:ident $rule:ident $module:ident::$name:ident,)*) => {
        /// All checks of the suite for nodes, in order.
        pub static NODE_CHECKS: &[NodeCheck] = &[$(NodeCheck {
            info: CheckInfo {
                name: stringify!($name),
                rule: Rule::$rule,
                required: is_required!($need),
            },
            subject: stringify!($module),
            run: |cx| Box::pin(checks::$module::$name(cx)),
        }),*];

        /// The names of all checks, and whether they are required.
        #[doc(hidden)]
        pub const NODE_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__node_checks! { table }
