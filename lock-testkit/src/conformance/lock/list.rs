//! The list of checks of locks.

use super::{LockCheck, checks};
use crate::conformance::rule::Rule;
use crate::conformance::run::CheckInfo;
use crate::conformance::suite::is_required;

/// Passes the list of checks to a macro: whether a check is required of every lock, of locks over nodes
/// that can be broken, or of none; its rule, and its path.
///
/// A check that is added here reaches every lock that runs the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_checks {
    ($callback:ident) => {
        $callback! {
            required L1 exclusion::a_hundred_contenders_lose_no_update,
            required L1 exclusion::a_guard_is_invalid_before_the_next_one_is_given,
            optional L1 processes::processes_lose_no_update,
            required L2 names::names_are_independent,
            required L2 names::names_are_any_bytes,
            required L2 names::names_that_look_alike_are_different,
            required L3 exclusion::the_holder_is_kept_out_like_anybody_else,
            required L4 trying::a_try_does_not_wait_for_a_holder,
            required L4 trying::a_free_lock_is_never_refused,
            required L4 trying::a_try_is_never_contended,
            required L5 waiting::a_wait_ends_when_the_holder_releases,
            required L5 waiting::a_wait_outlasts_a_holder_that_never_releases,
            required L5 waiting::a_wait_of_zero_tries_once,
            required L5 waiting::a_wait_in_vain_says_how_long_it_was,
            required L5 waiting::a_shorter_wait_ends_before_a_longer_one,
            required L5 waiting::a_wait_gives_up_when_the_lock_is_held,
            of_nodes L5 majority::a_wait_gives_up_when_too_few_nodes_answer,
            required L6 input::a_ttl_that_cannot_work_is_refused,
            required L6 input::an_empty_name_is_refused,
            required L6 input::holding_for_longer_than_the_ttl_is_refused,
            of_nodes L6 input::bad_input_is_refused_before_any_node_is_asked,
            required L7 cancelling::an_acquire_dropped_after_any_poll_leaves_nothing,
            required L7 cancelling::a_dropped_wait_leaves_the_holder_alone,
            required L7 cancelling::dropped_waits_are_in_nobodys_way,
            of_nodes L7 cancelling::an_acquire_dropped_while_nodes_are_slow_leaves_nothing,
            required L8 validity::a_guard_counts_down_from_its_ttl,
            required L8 validity::a_lock_ends_with_its_ttl,
            required L8 validity::a_lock_is_taken_as_long_as_its_guard_is_valid,
            of_nodes L8 validity::the_validity_counts_from_before_the_nodes_were_asked,
            optional L8 processes::a_killed_process_keeps_its_lock_until_the_ttl_ends,
            required L9 extending::an_extended_lock_outlives_its_first_ttl,
            required L9 extending::an_extension_never_shortens,
            required L9 extending::an_extension_by_a_bad_ttl_changes_nothing,
            required L9 extending::a_released_lock_cannot_be_extended,
            required L9 extending::an_expired_lock_is_not_revived,
            required L9 stale::a_stale_extension_finds_the_lock_lost,
            required L10 releasing::a_released_lock_is_free_and_leaves_nothing,
            required L10 releasing::a_second_release_has_the_answer_of_the_first,
            required L10 releasing::a_guard_is_invalid_from_the_release_on,
            required L10 stale::a_stale_release_finds_the_lock_not_held,
            required L11 dropping::a_dropped_guard_frees_the_lock,
            required L11 dropping::a_guard_may_be_dropped_on_a_plain_thread,
            required L11 dropping::a_guard_dropped_by_a_panic_frees_the_lock,
            required L11 dropping::a_guard_may_outlive_its_runtime,
            required L11 dropping::a_lock_serves_several_runtimes,
            required L11 stale::dropping_a_stale_guard_leaves_the_successor_alone,
            required L12 exclusion::each_acquisition_has_a_token_of_its_own,
            required L12 exclusion::a_fencing_token_grows_or_is_refused,
            required L13 holding::a_released_lock_is_kept_for_hold_at_least,
            required L13 holding::a_dropped_lock_is_kept_for_hold_at_least,
            required L13 holding::a_release_after_hold_at_least_frees_at_once,
            of_nodes L14 minority::a_minority_of_hung_nodes_does_no_harm,
            of_nodes L14 minority::a_minority_of_dead_nodes_does_no_harm,
            of_nodes L14 minority::a_minority_of_denying_nodes_does_no_harm,
            of_nodes L14 minority::a_minority_of_late_nodes_does_no_harm,
            of_nodes L14 minority::a_stale_minority_does_not_keep_a_lock_taken,
            of_nodes L14 minority::slow_refusals_are_no_outage,
            of_nodes L14 majority::a_majority_of_hung_nodes_is_an_outage,
            of_nodes L14 majority::a_majority_of_dead_nodes_is_an_outage,
            of_nodes L14 majority::a_majority_of_denying_nodes_is_an_outage,
            of_nodes L14 majority::a_late_majority_is_no_lock,
            of_nodes L14 majority::an_outage_leaves_a_held_lock_its_validity,
            of_nodes L14 majority::a_release_during_an_outage_is_made_good,
            required L15 losing::lost_ends_with_the_validity,
            required L15 losing::lost_is_put_off_by_an_extension,
            required L15 losing::lost_never_ends_for_a_released_lock,
            required L15 losing::lost_ends_for_a_lock_that_was_released_too_late,
            required L15 losing::a_body_ends_with_its_lock,
            optional L16 several::several_resources_are_all_locked,
            optional L16 several::of_several_resources_none_is_kept_if_one_is_taken,
            optional L16 several::names_of_several_resources_are_never_joined,
            optional L16 several::crossing_requests_for_several_resources_end,
            optional L17 renewing::an_automatic_extension_keeps_the_lock,
            optional L17 renewing::an_automatic_extension_ends_with_its_guard,
            optional L17 renewing::an_automatic_extension_ends_after_max_hold,
        }
    };
}

macro_rules! table {
    ($($need:ident $rule:ident $module:ident::$name:ident,)*) => {
        /// All checks of the suite for locks, in order.
        pub static LOCK_CHECKS: &[LockCheck] = &[$(LockCheck {
            info: CheckInfo {
                name: stringify!($name),
                rule: Rule::$rule,
                required: is_required!($need),
            },
            run: |cx| Box::pin(checks::$module::$name(cx)),
        }),*];

        /// The names of all checks, and whether they are required.
        #[doc(hidden)]
        pub const LOCK_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__lock_checks! { table }
