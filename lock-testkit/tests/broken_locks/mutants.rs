//! The bugs, and the checks that notice them.

/// Makes of each line a bug, a row of the table and a test.
macro_rules! mutants {
    ($($bug:ident $test:ident: $($check:ident),+;)*) => {
        /// What is wrong with a lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bug {
            None,
            $($bug,)*
        }

        /// Each bug and the checks that have to notice it.
        pub(crate) static MUTANTS: &[(Bug, &[&str])] = &[$((Bug::$bug, &[$(stringify!($check)),+])),*];

        mod noticed {
            $(#[test]
            fn $test() {
                let (bug, test) = (super::Bug::$bug, stringify!($test));
                $crate::assert_killed(bug, test, &[$(stringify!($check)),+]);
            })*
        }
    };
}

mutants! {
    // Exclusion and tokens.
    ExclusionPerInstance exclusion_inside_an_instance_alone:
        a_hundred_contenders_lose_no_update, a_wait_of_zero_tries_once;
    ExclusionPerProcess exclusion_inside_a_process_alone:
        processes_lose_no_update, a_killed_process_keeps_its_lock_until_the_ttl_ends;
    Reentrant a_lock_that_lets_its_holder_in_again: the_holder_is_kept_out_like_anybody_else;
    TokenReused a_token_used_twice:
        each_acquisition_has_a_token_of_its_own, a_hundred_contenders_lose_no_update;

    FencingForgotten a_fencing_token_that_is_forgotten: a_fencing_token_grows_or_is_refused;
    FencingStandsStill a_fencing_token_that_stands_still: a_fencing_token_grows_or_is_refused;

    // Names.
    NamesCutShort names_compared_by_their_start: names_are_independent;
    NamesCutAt255 names_compared_by_255_bytes: names_are_any_bytes;
    NamesAsText names_turned_into_text: names_that_look_alike_are_different;
    NamesFolded names_compared_without_case: names_that_look_alike_are_different;
    NamesCutAtNul names_that_end_at_a_nul: names_that_look_alike_are_different;
    NamesTrimmed names_without_white_space: names_that_look_alike_are_different;
    ResourceForgotten a_guard_that_forgets_what_it_locks:
        names_are_independent, names_are_any_bytes;

    // Trying and waiting.
    TryWaits a_try_that_waits: a_try_does_not_wait_for_a_holder;
    TryIsContended a_try_that_is_contended: a_try_is_never_contended;
    FreeRefused a_free_lock_refused_at_times: a_free_lock_is_never_refused;
    ReleaseNotNoticed a_wait_that_does_not_notice_a_release: a_wait_ends_when_the_holder_releases;
    WaitEndsAtOnce a_wait_that_ends_at_once:
        a_wait_ends_when_the_holder_releases, a_wait_in_vain_says_how_long_it_was;
    NoLimitIsOne no_limit_taken_for_the_default_one:
        a_wait_outlasts_a_holder_that_never_releases, a_wait_ends_when_the_holder_releases;
    WaitNeverEnds a_wait_that_never_ends:
        a_wait_of_zero_tries_once, a_shorter_wait_ends_before_a_longer_one;
    WaitOfZeroWaits a_wait_of_zero_that_tries_often: a_wait_of_zero_tries_once;
    WaitNotCounted a_wait_that_tells_nothing: a_wait_in_vain_says_how_long_it_was;
    NeverGivesUp a_wait_that_does_not_give_up: a_wait_gives_up_when_the_lock_is_held;
    OutagesWaitedOut a_wait_that_does_not_give_up_in_an_outage:
        a_wait_gives_up_when_too_few_nodes_answer;
    GivesUpOnHolders a_wait_for_nodes_alone: a_wait_gives_up_when_too_few_nodes_answer;
    ContentionIsOutage contention_taken_for_an_outage:
        a_try_does_not_wait_for_a_holder, a_wait_of_zero_tries_once,
        a_wait_in_vain_says_how_long_it_was;

    // Input.
    BadTtlMended a_bad_ttl_mended_in_silence:
        a_ttl_that_cannot_work_is_refused, an_extension_by_a_bad_ttl_changes_nothing;
    EmptyNameTaken an_empty_name_taken: an_empty_name_is_refused;
    LongHoldMended a_long_hold_mended_in_silence: holding_for_longer_than_the_ttl_is_refused;
    RefusalNamesNothing a_refusal_of_another_value:
        a_ttl_that_cannot_work_is_refused, an_extension_by_a_bad_ttl_changes_nothing,
        an_empty_name_is_refused, holding_for_longer_than_the_ttl_is_refused;
    InputCheckedLate input_checked_after_nodes_were_asked:
        bad_input_is_refused_before_any_node_is_asked;
    BadTtlReleases a_bad_ttl_that_loses_the_lock: an_extension_by_a_bad_ttl_changes_nothing;

    // Cancellation.
    CancelledStays a_cancelled_attempt_that_stays:
        an_acquire_dropped_after_any_poll_leaves_nothing,
        an_acquire_dropped_while_nodes_are_slow_leaves_nothing, dropped_waits_are_in_nobodys_way;
    CancelledTakesHolders a_cancelled_wait_that_frees_the_lock:
        a_dropped_wait_leaves_the_holder_alone;

    // Validity.
    NeverInvalid a_guard_that_is_always_valid:
        a_guard_is_invalid_before_the_next_one_is_given, a_lock_ends_with_its_ttl,
        a_stale_extension_finds_the_lock_lost;
    ValidTooLong a_validity_of_twice_the_ttl:
        a_guard_counts_down_from_its_ttl, a_guard_is_invalid_before_the_next_one_is_given,
        a_lock_is_taken_as_long_as_its_guard_is_valid;
    ValidFromReply a_validity_from_the_reply_on:
        the_validity_counts_from_before_the_nodes_were_asked;
    ValidTooShort a_validity_of_a_quarter: a_lock_ends_with_its_ttl;
    KeysForEver keys_without_an_end:
        a_lock_ends_with_its_ttl, a_wait_outlasts_a_holder_that_never_releases;
    KeysTooShort keys_that_end_before_the_guard: a_lock_is_taken_as_long_as_its_guard_is_valid;

    // Extension.
    ExtendsNothing an_extension_that_does_nothing: an_extended_lock_outlives_its_first_ttl;
    ExtendsGuardAlone an_extension_of_the_guard_alone: an_extended_lock_outlives_its_first_ttl;
    ExtendShortens an_extension_that_shortens: an_extension_never_shortens;
    ExtendIsAlwaysOk an_extension_that_is_always_well:
        a_released_lock_cannot_be_extended, an_expired_lock_is_not_revived,
        a_stale_extension_finds_the_lock_lost;
    ExtendRevives an_extension_that_revives:
        a_released_lock_cannot_be_extended, an_expired_lock_is_not_revived;
    ExtendIsAlwaysLost an_extension_that_never_works:
        an_extended_lock_outlives_its_first_ttl, an_extension_never_shortens;
    ExtendTakesSuccessors an_extension_that_takes_the_lock_back:
        a_stale_extension_finds_the_lock_lost;

    // Release.
    ReleasesNothing a_release_that_does_nothing: a_released_lock_is_free_and_leaves_nothing;
    SecondIsNotHeld a_second_release_that_finds_nothing:
        a_second_release_has_the_answer_of_the_first;
    ReleaseIsAlwaysOk a_release_that_is_always_well:
        a_second_release_has_the_answer_of_the_first, a_stale_release_finds_the_lock_not_held;
    ReleaseTakesSuccessors a_release_of_the_successors_lock:
        a_stale_release_finds_the_lock_not_held;
    ValidDuringRelease a_guard_valid_while_it_is_released: a_guard_is_invalid_from_the_release_on;
    DroppedReleaseEnds a_dropped_release_that_ends: a_guard_is_invalid_from_the_release_on;

    // Loss.
    LostNeverEnds a_loss_that_nobody_hears_of:
        lost_ends_with_the_validity, a_body_ends_with_its_lock,
        an_automatic_extension_ends_after_max_hold;
    LostAtFirstTtl a_loss_told_in_spite_of_an_extension: lost_is_put_off_by_an_extension;
    LostWhenReleased a_release_told_as_a_loss: lost_never_ends_for_a_released_lock;
    LateReleaseIsNoLoss a_late_release_not_told_as_a_loss: lost_ends_for_a_lock_that_was_released_too_late;

    // Several resources.
    SeveralIsFirst the_first_of_several_alone: several_resources_are_all_locked;
    SeveralPartly some_of_several_kept: of_several_resources_none_is_kept_if_one_is_taken;
    SeveralJoined names_of_several_joined: names_of_several_resources_are_never_joined;
    SeveralAsGiven several_in_the_order_given: crossing_requests_for_several_resources_end;

    // Automatic extension.
    NotExtended no_automatic_extension: an_automatic_extension_keeps_the_lock;
    ExtendedForEver an_automatic_extension_that_outlives_its_guard:
        an_automatic_extension_ends_with_its_guard;
    MaxHoldIgnored an_automatic_extension_without_end: an_automatic_extension_ends_after_max_hold;

    // Drop.
    DropsNothing a_drop_that_does_nothing: a_dropped_guard_frees_the_lock;
    DropNeedsRuntime a_drop_that_panics_on_a_thread: a_guard_may_be_dropped_on_a_plain_thread;
    DropForgetsOnThread a_drop_that_does_nothing_on_a_thread:
        a_guard_may_be_dropped_on_a_plain_thread;
    DropForgetsInPanic a_drop_that_does_nothing_in_a_panic:
        a_guard_dropped_by_a_panic_frees_the_lock;
    DropNeedsLiveRuntime a_drop_that_panics_after_its_runtime: a_guard_may_outlive_its_runtime;
    DropTakesSuccessors a_drop_of_the_successors_lock:
        dropping_a_stale_guard_leaves_the_successor_alone;
    OneRuntimeOnly a_lock_of_one_runtime: a_lock_serves_several_runtimes;

    // Holding.
    HoldIgnored a_hold_ignored:
        a_released_lock_is_kept_for_hold_at_least, a_dropped_lock_is_kept_for_hold_at_least;
    HoldIgnoredByDrop a_hold_ignored_by_drop: a_dropped_lock_is_kept_for_hold_at_least;
    HoldNeverEnds a_hold_without_an_end: a_released_lock_is_kept_for_hold_at_least;
    HoldFromRelease a_hold_from_the_release_on: a_release_after_hold_at_least_frees_at_once;

    // Nodes.
    NeedsAllNodes a_quorum_of_all_nodes:
        a_minority_of_hung_nodes_does_no_harm, a_minority_of_dead_nodes_does_no_harm,
        a_minority_of_denying_nodes_does_no_harm, a_minority_of_late_nodes_does_no_harm;
    WaitsForAllNodes a_wait_for_all_nodes:
        a_minority_of_hung_nodes_does_no_harm, a_minority_of_late_nodes_does_no_harm;
    OneRefusalDecides a_single_refusal_that_decides: a_stale_minority_does_not_keep_a_lock_taken;
    SlowIsOutage an_answer_taken_for_an_outage: slow_refusals_are_no_outage;
    QuorumMinusOne a_quorum_of_one_less:
        a_majority_of_hung_nodes_is_an_outage, a_majority_of_dead_nodes_is_an_outage,
        a_majority_of_denying_nodes_is_an_outage, a_late_majority_is_no_lock;
    QuorumOfReachable a_quorum_of_the_reachable:
        a_majority_of_hung_nodes_is_an_outage, a_majority_of_dead_nodes_is_an_outage,
        a_majority_of_denying_nodes_is_an_outage, a_late_majority_is_no_lock;
    ErrorsAreRefusals errors_taken_for_refusals:
        a_majority_of_hung_nodes_is_an_outage, a_majority_of_dead_nodes_is_an_outage,
        a_majority_of_denying_nodes_is_an_outage, a_late_majority_is_no_lock;
    OutageIsNone an_outage_taken_for_a_holder:
        a_majority_of_hung_nodes_is_an_outage, a_majority_of_denying_nodes_is_an_outage;
    OutageIsContention an_outage_taken_for_contention:
        a_majority_of_hung_nodes_is_an_outage, a_majority_of_denying_nodes_is_an_outage;
    NoVotes an_error_without_votes:
        a_majority_of_dead_nodes_is_an_outage, an_outage_leaves_a_held_lock_its_validity,
        a_release_during_an_outage_is_made_good;
    NoLabels an_error_without_labels: a_majority_of_dead_nodes_is_an_outage;
    VotesHidden an_error_that_hides_failures:
        a_majority_of_dead_nodes_is_an_outage, an_outage_leaves_a_held_lock_its_validity;
    CausesHidden an_error_that_hides_causes: a_majority_of_denying_nodes_is_an_outage;
    FailedStays a_failed_attempt_that_stays:
        a_majority_of_hung_nodes_is_an_outage, a_late_majority_is_no_lock;
    BrokenForGood a_lock_broken_for_good_by_an_outage: a_majority_of_dead_nodes_is_an_outage;
    OutageIsLoss an_outage_taken_for_a_loss: an_outage_leaves_a_held_lock_its_validity;
    OutageEndsValidity an_outage_that_ends_the_validity:
        an_outage_leaves_a_held_lock_its_validity;
    OutageExtends an_outage_taken_for_an_extension: an_outage_leaves_a_held_lock_its_validity;
    OutageReleases an_outage_taken_for_a_release: a_release_during_an_outage_is_made_good;
    ReleaseNotRepeated a_release_sent_once: a_release_during_an_outage_is_made_good;
}
