//! The bugs, and the checks that notice them.

/// Makes of each line a bug, a row of the table and a test.
macro_rules! mutants {
    ($($bug:ident $test:ident: $($check:ident),+;)*) => {
        /// What is wrong with a node.
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
                $crate::assert_killed(super::Bug::$bug, &[$(stringify!($check)),+]);
            })*
        }
    };
}

mutants! {
    // Acquires.
    SetsNothing a_free_key_is_not_set: a_free_key_is_set;
    SetsWithoutNx a_set_without_nx:
        a_taken_key_is_refused_and_left_alone, a_refusal_leaves_value_and_lifetime_alone,
        an_acquire_does_not_set_its_own_key_again, of_100_acquires_at_once_one_wins;
    SetsWithoutPx a_set_without_px:
        a_free_key_is_set, lifetimes_are_exact_to_the_millisecond, the_shortest_lifetime_works,
        a_key_expires_by_itself_and_is_free_then, a_key_expires_without_the_node_that_set_it,
        no_command_leaves_a_key_without_a_lifetime;
    RefreshesOnRefusal a_refusal_that_refreshes_the_ttl:
        a_refusal_leaves_value_and_lifetime_alone, an_acquire_does_not_set_its_own_key_again;
    SetsItsOwnKeyAgain a_set_of_its_own_key: an_acquire_does_not_set_its_own_key_again;
    TakesAnotherType a_set_over_another_type: a_key_of_another_type_is_refused_and_left_alone;
    ChecksAndThenSets a_set_in_two_steps: of_100_acquires_at_once_one_wins;
    ScriptSetsNothing a_script_that_grants_and_does_not_set:
        a_free_key_is_set_by_script, keys_are_bytes;
    ScriptSetsWithoutPx a_script_without_px:
        a_free_key_is_set_by_script, lifetimes_are_exact_to_the_millisecond,
        no_command_leaves_a_key_without_a_lifetime;
    ScriptRefreshesOnRefusal a_refusal_by_script_that_refreshes_the_ttl:
        a_refusal_leaves_value_and_lifetime_alone;
    ForgetsItsOwnToken no_check_of_its_own_token:
        an_acquire_by_script_knows_its_own_token_and_changes_nothing;
    RefreshesItsOwnKey a_refresh_of_its_own_key:
        an_acquire_by_script_knows_its_own_token_and_changes_nothing;
    AnotherTypeIsAnError an_error_for_another_type:
        a_key_of_another_type_is_refused_and_left_alone;
    ScriptChecksAndThenSets a_script_that_is_not_atomic:
        of_100_acquires_by_script_one_wins_and_all_others_are_told;
    TellsTheWholeValue a_whole_long_value_told: a_long_value_is_told_by_its_first_128_bytes;
    TellsTheAskersToken a_refusal_that_names_the_asker:
        an_acquire_by_script_tells_the_holder_and_the_time_it_has_left,
        of_100_acquires_by_script_one_wins_and_all_others_are_told;
    CountsInSeconds a_ttl_in_seconds:
        lifetimes_are_exact_to_the_millisecond, the_shortest_lifetime_works;
    CutsToWholeSeconds a_ttl_cut_to_seconds: lifetimes_are_exact_to_the_millisecond;
    RoundsUpToWholeSeconds a_ttl_rounded_up_to_seconds: lifetimes_are_exact_to_the_millisecond;
    Counts32Bits a_ttl_of_32_bits: the_longest_lifetime_works;

    // Extensions.
    ExtendsNothing an_extension_that_does_nothing:
        an_extension_lengthens_the_life_of_its_own_key, extensions_are_exact_to_the_millisecond,
        an_extension_of_500_reaches_each;
    ExtendRevives an_extension_that_revives: an_extension_revives_no_missing_key;
    ExtendShortens an_extension_that_shortens: an_extension_never_shortens_a_life;
    ExtendAddsUp an_extension_on_top_of_what_is_left:
        an_extension_lengthens_the_life_of_its_own_key, extensions_are_exact_to_the_millisecond;
    ChecksAndThenExtends an_extension_in_two_steps:
        late_calls_of_a_holder_never_touch_its_successor;
    ExtendPersists an_extension_for_ever: no_command_leaves_a_key_without_a_lifetime;
    ExtendLeavesForEverAlone an_extension_that_leaves_for_ever_alone:
        a_key_that_lost_its_lifetime_gets_one_from_its_holder;
    ExtendRoundsToSeconds an_extension_in_seconds: extensions_are_exact_to_the_millisecond;
    ExtendsTheKeyOfAnother an_extension_of_anothers_key:
        an_extension_leaves_the_key_of_another_alone;
    ExtendsAnotherType an_extension_over_another_type:
        an_extension_leaves_a_key_of_another_type_alone;
    ExtendComparesAPrefix an_extension_that_compares_a_prefix:
        an_extension_leaves_the_key_of_another_alone;
    ExtendsTheFirstAlone an_extension_of_the_first_alone:
        an_extension_of_many_answers_for_each_in_order, an_extension_of_500_reaches_each;
    Extends256AtMost an_extension_of_256_at_most: an_extension_of_500_reaches_each;
    ExtendsByTheFirstToken an_extension_by_the_first_token:
        an_extension_of_many_answers_for_each_in_order;
    ExtendsByTheFirstTtl an_extension_by_the_first_ttl:
        an_extension_of_many_answers_for_each_in_order;
    StopsExtendingAtAFailure an_extension_that_stops_at_a_failure:
        an_extension_of_many_answers_for_each_in_order, an_extension_of_500_reaches_each;
    AnswersExtendsBackwards answers_to_an_extension_out_of_order:
        an_extension_of_many_answers_for_each_in_order, an_extension_of_500_reaches_each;
    RefusesAnEmptyExtend an_error_for_an_empty_extension:
        an_extension_of_nothing_is_answered_with_nothing;
    AnswersAnEmptyExtendWithNil a_nil_for_an_empty_extension:
        an_extension_of_nothing_is_answered_with_nothing,
        every_reply_has_the_form_that_the_docs_name;

    // Exchanges.
    ExchangeExtendsAlone an_exchange_that_extends_alone:
        an_exchange_gives_a_key_the_new_token_and_extends_it;
    ExchangeShortens an_exchange_that_shortens: an_exchange_never_shortens_a_life;
    ExchangesTheKeyOfAnother an_exchange_of_anothers_key:
        an_exchange_leaves_what_has_another_value_alone;
    ExchangesTheFirstAlone an_exchange_of_the_first_alone:
        an_exchange_of_several_answers_for_each_in_order;

    // Releases.
    ReleasesWithoutComparing a_plain_del:
        a_release_leaves_the_key_of_another_alone, a_release_leaves_a_key_of_another_type_alone,
        values_are_bytes;
    ReleasesAnotherType a_release_of_another_type: a_release_leaves_a_key_of_another_type_alone;
    ReleaseComparesAPrefix a_release_that_compares_a_prefix:
        a_release_leaves_the_key_of_another_alone;
    ReleaseComparesWithoutCase a_release_that_compares_without_case:
        a_release_leaves_the_key_of_another_alone;
    ReleaseComparesATrimmedValue a_release_that_trims_what_it_compares:
        a_release_leaves_the_key_of_another_alone;
    ReleasesNothing a_release_that_does_nothing:
        a_release_deletes_its_own_key, a_second_release_finds_no_key, keys_are_bytes;
    ReleasesWhatIsMissing a_release_of_what_is_missing:
        a_second_release_finds_no_key, of_100_releases_at_once_one_finds_the_key;
    ReleaseTellsNobodyForAnother a_release_that_cannot_tell_another_from_nobody:
        a_release_leaves_the_key_of_another_alone, every_reply_has_the_form_that_the_docs_name;
    ReleasesAllOfTheToken a_release_of_all_keys_of_a_token:
        a_release_deletes_no_other_key_of_the_same_token;
    ChecksAndThenReleases a_release_in_two_steps:
        of_100_releases_at_once_one_finds_the_key,
        late_calls_of_a_holder_never_touch_its_successor;
    KeepDeletes a_release_that_keeps_nothing: a_release_that_keeps_cuts_a_longer_life;
    KeepLengthens a_release_that_lengthens: a_release_that_keeps_never_lengthens_a_life;
    KeepCreates a_release_that_creates: a_release_that_keeps_creates_no_key;
    KeepPersists a_release_that_keeps_for_ever: no_command_leaves_a_key_without_a_lifetime;
    KeepDoesNothing a_release_that_cuts_no_life:
        a_release_that_keeps_cuts_a_longer_life, the_shortest_lifetime_works,
        what_a_release_keeps_is_exact_to_the_millisecond;
    KeepLeavesForEverAlone a_release_that_leaves_for_ever_alone:
        a_key_that_lost_its_lifetime_gets_one_from_its_holder;
    KeepCutsFractions a_release_that_cuts_fractions: a_begun_millisecond_is_kept_as_a_whole_one;
    KeepCutsToWholeSeconds a_release_that_keeps_whole_seconds:
        what_a_release_keeps_is_exact_to_the_millisecond;

    // Several keys in one step.
    AllSetNothing several_that_are_not_set:
        several_free_keys_are_set_with_the_lifetime,
        several_know_their_own_keys_and_set_the_missing_ones,
        a_hundred_keys_are_set_and_released_in_one_step;
    AllSetTheFirstAlone the_first_of_several_alone:
        several_free_keys_are_set_with_the_lifetime,
        of_several_keys_none_is_set_if_one_is_taken,
        a_hundred_keys_are_set_and_released_in_one_step;
    AllSet64AtMost several_that_are_64_at_most: a_hundred_keys_are_set_and_released_in_one_step;
    AllJoinTheirNames names_of_several_joined:
        several_free_keys_are_set_with_the_lifetime,
        of_50_crossing_acquires_of_several_no_two_hold_one_key;
    AllSetWithoutPx several_without_px: several_free_keys_are_set_with_the_lifetime;
    AllCutToWholeSeconds several_with_a_ttl_cut_to_seconds:
        several_free_keys_are_set_with_the_lifetime;
    AllSetTheFreeOnes free_ones_set_beside_a_taken_one:
        of_several_keys_none_is_set_if_one_is_taken,
        several_that_are_refused_leave_their_own_keys_alone,
        of_50_crossing_acquires_of_several_no_two_hold_one_key;
    AllSetOneByOne several_set_one_by_one:
        of_several_keys_none_is_set_if_one_is_taken,
        of_50_crossing_acquires_of_several_no_two_hold_one_key;
    AllGiveUpTheirOwnKeys a_refusal_that_gives_up_its_own_keys:
        several_that_are_refused_leave_their_own_keys_alone;
    AllRefreshOnRefusal a_refusal_that_refreshes_its_own_keys:
        several_that_are_refused_leave_their_own_keys_alone;
    AllTakeAnotherType several_over_another_type:
        of_several_keys_none_is_set_if_one_is_taken,
        the_first_of_several_that_is_not_free_is_told;
    AllCompareAPrefix several_that_compare_a_prefix: of_several_keys_none_is_set_if_one_is_taken;
    AllForgetTheirOwnToken several_that_forget_their_own_token:
        several_know_their_own_keys_and_set_the_missing_ones,
        the_first_of_several_that_is_not_free_is_told;
    AllRefreshTheirOwnKeys several_that_refresh_their_own_keys:
        several_know_their_own_keys_and_set_the_missing_ones;
    AllAreSetIfOneIs several_that_are_set_if_one_is:
        several_know_their_own_keys_and_set_the_missing_ones;
    AllTellTheLast the_last_of_several_told: the_first_of_several_that_is_not_free_is_told;
    AllTellTheFirstByName the_first_by_name_told: the_first_of_several_that_is_not_free_is_told;
    AllTellTheWholeValue a_whole_long_value_of_several_told:
        of_several_a_long_value_is_told_by_its_first_128_bytes;
    AllTellNoHolder a_refusal_of_several_that_tells_nobody:
        of_several_keys_none_is_set_if_one_is_taken, every_reply_has_the_form_that_the_docs_name;
    AllCheckAndThenSet several_in_two_steps:
        of_50_crossing_acquires_of_several_no_two_hold_one_key;
    AllReleaseNothing a_release_of_several_that_does_nothing:
        a_release_of_several_answers_for_each_in_order,
        of_50_crossing_acquires_of_several_no_two_hold_one_key;
    AllReleaseTheFirstAlone a_release_of_the_first_of_several_alone:
        a_release_of_several_answers_for_each_in_order,
        of_several_a_begun_millisecond_is_kept_as_a_whole_one;
    AllRelease64AtMost a_release_of_64_at_most: a_hundred_keys_are_set_and_released_in_one_step;
    AllReleaseBackwards answers_to_a_release_out_of_order:
        a_release_of_several_answers_for_each_in_order;
    AllReleasesAreCounted a_release_of_several_that_is_counted:
        a_release_of_several_answers_for_each_in_order,
        every_reply_has_the_form_that_the_docs_name;
    AllReleaseNothingOfNothing an_error_for_an_empty_release:
        a_release_of_several_answers_for_each_in_order,
        every_reply_has_the_form_that_the_docs_name;
    AllReleaseTheirToken a_release_of_several_that_takes_all_of_the_token:
        a_release_of_several_answers_for_each_in_order;
    AllReleaseUpToAFailure a_release_of_several_that_stops_at_a_failure:
        a_release_of_several_answers_for_each_in_order,
        a_hundred_keys_are_set_and_released_in_one_step;
    AllReleaseWithoutComparing a_plain_del_of_several:
        a_release_of_several_answers_for_each_in_order,
        a_release_of_several_leaves_the_keys_of_others_alone;
    AllReleaseAnotherType a_release_of_several_of_another_type:
        a_release_of_several_leaves_the_keys_of_others_alone;
    AllReleaseComparingAPrefix a_release_of_several_that_compares_a_prefix:
        a_release_of_several_leaves_the_keys_of_others_alone;
    AllKeepDelete a_release_of_several_that_keeps_nothing:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;
    AllKeepDoesNothing a_release_of_several_that_cuts_no_life:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;
    AllKeepLengthens a_release_of_several_that_lengthens:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;
    AllKeepCreates a_release_of_several_that_creates:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;
    AllKeepLeavesForEverAlone a_release_of_several_that_leaves_for_ever_alone:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;
    AllKeepCutsFractions a_release_of_several_that_cuts_fractions:
        of_several_a_begun_millisecond_is_kept_as_a_whole_one;
    AllKeepCutsToWholeSeconds a_release_of_several_that_keeps_whole_seconds:
        a_release_of_several_that_keeps_cuts_longer_lives_alone;

    // The restart guard.
    GuardIgnored a_guard_that_nobody_looks_at:
        a_server_without_a_guard_grants_nothing_before_its_quarantine_is_over;
    GuardSetsTheKey a_quarantine_that_sets_the_key:
        a_guard_of_another_run_is_a_quarantine;
    GuardEndsEarly a_quarantine_that_ends_early:
        a_server_without_a_guard_grants_nothing_before_its_quarantine_is_over;
    GuardKnowsNoRun a_guard_for_every_run: a_guard_of_another_run_is_a_quarantine;
    GuardWantsARun a_guard_that_wants_a_run: a_guard_without_a_run_is_taken_over;
    GuardForgetsTheLongest a_quarantine_of_the_last_that_asked:
        a_quarantine_is_the_longest_that_was_asked_for_and_never_longer;
    GuardTakesAnything a_guard_whatever_its_key_holds:
        a_guard_that_is_none_is_an_error_and_nothing_is_set;
    GuardErrorsAreQuarantines errors_as_a_quarantine:
        a_guard_that_may_not_be_set_is_an_error;
    BootstrapSetsNothing a_bootstrap_that_sets_nothing:
        a_server_that_was_bootstrapped_grants_at_once;
    BootstrapOverwrites a_bootstrap_that_ends_a_quarantine:
        a_bootstrap_ends_no_quarantine;
    // Fencing counters.
    FencedSetsNoCounter a_counter_that_is_not_raised:
        a_fenced_acquire_raises_the_counter_and_answers_its_number,
        counters_of_several_are_raised_to_one_number;
    FencedShowsFloats a_counter_with_an_exponent:
        a_fenced_acquire_raises_the_counter_and_answers_its_number;
    FencedKeepsCountersForEver a_counter_for_ever:
        a_fenced_acquire_raises_the_counter_and_answers_its_number;
    FencedBeginsAtOne a_counter_that_begins_at_one:
        a_missing_counter_begins_at_the_clock_of_the_server;
    FencedHasNoFloor a_floor_that_is_forgotten: a_fenced_acquire_is_above_its_floor;
    FencedCountsEachForItself counters_of_several_that_count_for_themselves:
        counters_of_several_are_raised_to_one_number;
    FencedRaisesOnRefusal a_refusal_that_raises_counters:
        a_fenced_acquire_that_is_refused_changes_nothing;
    FencedKnowsItselfByTheLock a_grant_without_identity:
        a_fenced_acquire_knows_itself_by_lock_and_counter_alone;
    FencedTakesAnyCounter a_grant_whatever_the_counter_holds:
        a_counter_that_is_none_is_an_error_and_nothing_is_set;
    ConfirmsNothing a_confirmation_that_does_nothing:
        a_confirmation_raises_the_counters_of_a_held_lock;
    ConfirmsWithoutTheLock a_confirmation_without_the_lock:
        a_confirmation_of_what_has_gone_changes_nothing,
        a_confirmation_behind_an_exchange_changes_nothing;
    ConfirmsWithoutTheCounter a_confirmation_without_the_counter:
        a_confirmation_of_what_has_gone_changes_nothing,
        a_confirmation_behind_an_exchange_changes_nothing;
    ConfirmsByTheFirstCounter a_confirmation_by_the_first_counter:
        a_confirmation_of_what_has_gone_changes_nothing;

    // Inspections and removals.
    InspectFindsNothing an_inspection_that_finds_nothing:
        an_inspection_tells_the_holder_and_the_time_it_has_left,
        an_inspection_tells_of_a_key_that_lives_for_ever;
    InspectTellsNoLifetime an_inspection_without_a_lifetime:
        an_inspection_tells_the_holder_and_the_time_it_has_left;
    InspectTellsTheWholeValue an_inspection_that_tells_a_whole_long_value:
        an_inspection_tells_a_long_value_by_its_first_128_bytes;
    InspectTellsTheHolderAlone an_inspection_that_tells_the_holder_alone:
        an_inspection_tells_of_a_key_that_lives_for_ever,
        every_reply_has_the_form_that_the_docs_name;
    InspectFindsNoOtherType an_inspection_that_finds_no_other_type:
        an_inspection_tells_of_a_key_of_another_type;
    InspectFailsOnAnotherType an_inspection_that_fails_on_another_type:
        an_inspection_tells_of_a_key_of_another_type;
    InspectIsNilForAMissingKey an_inspection_that_is_nil_for_a_missing_key:
        an_inspection_finds_no_missing_key, every_reply_has_the_form_that_the_docs_name;
    InspectTellsAMissingKey an_inspection_that_tells_of_a_missing_key:
        an_inspection_finds_no_missing_key;
    InspectCreates an_inspection_that_creates:
        an_inspection_changes_nothing, an_inspection_finds_no_missing_key;
    InspectTakes an_inspection_that_deletes: an_inspection_changes_nothing;
    InspectPersists an_inspection_that_persists: an_inspection_changes_nothing;
    InspectEndsWhatLivesForEver an_inspection_that_ends_what_lives_for_ever:
        an_inspection_changes_nothing;
    ScanEndsEarly a_scan_that_ends_early:
        a_scan_finds_the_strings_with_its_prefix_and_no_others;
    ScanListsAnotherType a_scan_that_lists_another_type:
        a_scan_finds_the_strings_with_its_prefix_and_no_others;
    ScanTakesPatterns a_scan_that_takes_its_prefix_for_a_pattern:
        a_scan_finds_the_strings_with_its_prefix_and_no_others;
    DescribesWithoutTheRole a_description_without_the_role:
        a_description_tells_the_time_and_the_role;
    DescribesATimeThatGoesBack a_description_whose_time_goes_back:
        a_description_tells_the_time_and_the_role;
    RemovesNothing a_removal_that_does_nothing:
        a_removal_deletes_the_key_whoever_holds_it, a_removal_finds_no_missing_key;
    RemovesTokensAlone a_removal_of_tokens_alone: a_removal_deletes_the_key_whoever_holds_it;
    RemovesNothingThatLivesForEver a_removal_that_leaves_for_ever_alone:
        a_removal_deletes_the_key_whoever_holds_it;
    RemovesAnotherType a_removal_of_another_type: a_removal_leaves_a_key_of_another_type_alone;
    RemoveFindsNoOtherType a_removal_that_finds_no_other_type:
        a_removal_leaves_a_key_of_another_type_alone,
        every_reply_has_the_form_that_the_docs_name;
    RemovesWhatIsMissing a_removal_of_what_is_missing:
        a_removal_finds_no_missing_key, every_reply_has_the_form_that_the_docs_name;
    RemovesAll a_removal_of_all: a_removal_deletes_no_other_key;

    // Keys and values.
    KeysAreLossyText lossy_keys: keys_are_bytes, keys_that_look_alike_are_different_keys;
    KeysAreLatin1 keys_as_latin_1: keys_are_bytes, keys_of_unicode_stay_as_they_are;
    KeysAreNormalized normalized_keys: keys_of_unicode_stay_as_they_are;
    KeysEndAtNul keys_that_end_at_nul: keys_are_bytes, keys_that_look_alike_are_different_keys;
    KeysHaveNoCase keys_without_case: keys_that_look_alike_are_different_keys;
    KeysAreTrimmed trimmed_keys:
        keys_are_bytes, keys_may_hold_whatever_means_something_elsewhere,
        keys_that_look_alike_are_different_keys;
    KeysAreCut long_keys_cut: keys_of_64_kib_work;
    KeysAreUnquoted unquoted_keys: keys_may_hold_whatever_means_something_elsewhere;
    KeysAreHashTags keys_cut_to_their_hash_tags:
        keys_may_hold_whatever_means_something_elsewhere, keys_that_look_alike_are_different_keys;
    KeysAreNumbers keys_read_as_numbers:
        keys_may_hold_whatever_means_something_elsewhere, keys_that_look_alike_are_different_keys;
    KeysGetAPrefix keys_with_a_prefix: keys_are_bytes, a_release_deletes_no_other_key_of_the_same_token;

    // Replies.
    ErrorsAreRefusals errors_as_refusals:
        an_error_inside_a_script_is_an_error, a_script_that_may_not_set_is_an_error,
        an_error_inside_a_script_for_several_is_an_error, several_that_may_not_be_set_are_an_error,
        an_error_inside_an_inspection_or_a_removal_is_an_error,
        an_exchange_that_may_not_set_is_an_error,
        an_error_inside_a_fencing_script_is_an_error,
        a_fencing_script_that_may_not_set_is_an_error;
    RefusalsAreErrors refusals_as_errors:
        a_taken_key_is_refused_and_left_alone, of_100_acquires_at_once_one_wins;
    ScriptRefusalsAreErrors refusals_of_scripts_as_errors:
        a_release_leaves_the_key_of_another_alone, every_reply_has_the_form_that_the_docs_name;
    ScriptErrorsHaveNoCode errors_of_scripts_without_their_code:
        an_error_inside_a_script_is_an_error, a_script_that_may_not_set_is_an_error,
        an_error_inside_a_script_for_several_is_an_error,
        an_error_inside_an_inspection_or_a_removal_is_an_error,
        an_unknown_script_is_noscript_and_has_not_run;
    IntegersAreText integers_as_text:
        every_reply_has_the_form_that_the_docs_name, a_release_deletes_its_own_key;
    NilIsEmptyText nil_as_empty_text:
        every_reply_has_the_form_that_the_docs_name,
        a_key_of_another_type_is_refused_and_left_alone;
    EmptyTextIsNil empty_text_as_nil:
        an_acquire_by_script_tells_the_holder_and_the_time_it_has_left, values_are_bytes;
    OkIsOne ok_as_one: a_free_key_is_set, every_reply_has_the_form_that_the_docs_name;
    OkIsTrueEverywhere one_as_ok:
        a_free_key_is_set_by_script, every_reply_has_the_form_that_the_docs_name;
    TextIsLossy lossy_values:
        values_are_bytes, a_long_value_is_told_by_its_first_128_bytes;
    TextIsANumberIfItCan text_read_as_numbers: values_are_bytes;
    ArraysOfOneAreTheOne arrays_of_one_unpacked:
        an_extension_lengthens_the_life_of_its_own_key,
        every_reply_has_the_form_that_the_docs_name;
    ArraysAreTurned arrays_turned_round:
        an_acquire_by_script_tells_of_a_key_that_lives_for_ever;
    TellsSeconds a_lifetime_told_in_seconds:
        an_inspection_tells_the_holder_and_the_time_it_has_left,
        the_first_of_several_that_is_not_free_is_told,
        an_acquire_by_script_tells_the_holder_and_the_time_it_has_left;
    TellsZeroForEver for_ever_told_as_zero:
        an_acquire_by_script_tells_of_a_key_that_lives_for_ever,
        a_key_of_another_type_is_refused_and_left_alone;

    // Many calls, and dropped ones.
    RefusesASecondCall one_call_at_a_time:
        of_100_acquires_at_once_one_wins, each_of_20000_calls_gets_its_own_reply;
    MixesUpOneReplyOf997 replies_that_are_mixed_up_rarely:
        each_of_20000_calls_gets_its_own_reply;
    GivesTheReplyOfADroppedCall replies_of_dropped_calls_given_to_others:
        dropped_calls_leave_the_replies_of_others_alone;
    BreaksAtADroppedCall a_dropped_call_that_breaks_the_node:
        dropped_calls_leave_the_replies_of_others_alone,
        a_release_behind_a_dropped_acquire_leaves_nothing;
    RunsADroppedCallLate a_dropped_call_that_runs_late:
        a_release_behind_a_dropped_acquire_leaves_nothing;

    // Scripts.
    HidesNoscript a_node_that_sends_the_source_by_itself:
        an_unknown_script_is_noscript_and_has_not_run;
    RunsInSpiteOfNoscript a_script_that_ran_in_spite_of_noscript:
        an_unknown_script_is_noscript_and_has_not_run,
        scripts_that_vanish_under_calls_run_once_or_not;
    NoscriptIsARefusal noscript_as_a_refusal:
        an_unknown_script_is_noscript_and_has_not_run,
        scripts_that_vanish_under_calls_run_once_or_not;
    SendsNoSource a_source_that_is_never_sent:
        a_script_runs_by_its_source_too, scripts_that_vanish_under_calls_run_once_or_not;
}
