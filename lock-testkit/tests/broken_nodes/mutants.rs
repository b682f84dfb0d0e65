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
        an_error_inside_a_script_is_an_error, a_script_that_may_not_set_is_an_error;
    RefusalsAreErrors refusals_as_errors:
        a_taken_key_is_refused_and_left_alone, of_100_acquires_at_once_one_wins;
    ScriptRefusalsAreErrors refusals_of_scripts_as_errors:
        a_release_leaves_the_key_of_another_alone, every_reply_has_the_form_that_the_docs_name;
    ScriptErrorsHaveNoCode errors_of_scripts_without_their_code:
        an_error_inside_a_script_is_an_error, a_script_that_may_not_set_is_an_error,
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
