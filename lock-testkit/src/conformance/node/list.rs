//! Which checks of nodes there are.

use super::{NodeCheck, checks};
use crate::conformance::rule::Rule;
use crate::conformance::run::CheckInfo;
use crate::conformance::suite::is_required;

/// Hands the list of checks to a macro: whether a check is required, its rule, and where it stands.
///
/// A check that is added here reaches every backend that runs the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __node_checks {
    ($callback:ident) => {
        $callback! {
            required N2 replies::a_free_key_is_set,
            required N2 replies::a_taken_key_is_refused_and_left_alone,

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

        /// Their names, and whether they are required.
        #[doc(hidden)]
        pub const NODE_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__node_checks! { table }
