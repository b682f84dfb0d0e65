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
            required N2 releasing::a_release_deletes_its_own_key,
            required N2 releasing::a_second_release_finds_no_key,
            required N2 releasing::a_release_leaves_the_key_of_another_alone,
            required N2 releasing::a_release_leaves_a_key_of_another_type_alone,
            required N2 releasing::a_release_deletes_no_other_key_of_the_same_token,
            required N2 releasing::a_release_that_keeps_cuts_a_longer_life,
            required N2 releasing::a_release_that_keeps_never_lengthens_a_life,
            required N2 releasing::a_release_that_keeps_creates_no_key,
            required N2 releasing::a_begun_millisecond_is_kept_as_a_whole_one,
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
            run: |cx| Box::pin(checks::$module::$name(cx)),
        }),*];

        /// Their names, and whether they are required.
        #[doc(hidden)]
        pub const NODE_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__node_checks! { table }
