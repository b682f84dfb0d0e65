use super::*;
use crate::inspection::LockKey;

const MS: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(30);

type Answer = Result<AcquireAnswer, NodeError>;

fn refused() -> Answer {
    let token = Some(b"other".to_vec());
    Ok(AcquireAnswer::Refused(Some(LockKey { token, ttl: None })))
}

fn broken<T>() -> Result<T, NodeError> {
    Err(NodeError::connection("broken"))
}

fn not_sent() -> Answer {
    Err(NodeError::not_sent("paused"))
}

fn cross_slot() -> Answer {
    Err(NodeError::server(
        "CROSSSLOT Keys in request don't hash to the same slot",
    ))
}

fn set(nodes: &[usize]) -> NodeSet {
    nodes.iter().copied().fold(NodeSet::EMPTY, NodeSet::with)
}

fn at_zero() -> Duration {
    Duration::ZERO
}

/// An attempt that has sent its command to nodes 0, 1 and 2.
fn asked(has_several: bool) -> Ledger {
    let mut ledger = Ledger::new(has_several, TTL, Moment::default());
    for node in 0..3 {
        assert!(ledger.begins(node));
        ledger.is_sent(node);
    }
    ledger
}

/// A lock that nodes 0 and 1 granted, and that is valid for 100 ms.
fn held() -> Ledger {
    let mut ledger = asked(false);
    for node in 0..2 {
        ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
    }
    ledger.acquire_answered(2, &refused(), at_zero);
    assert!(ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO));
    ledger
}

#[test]
fn a_key_may_be_where_a_command_went_until_a_definite_answer() {
    let table: [(Answer, bool, &[usize]); 5] = [
        // answer of node 0, then: is it granted, and where may keys be
        (Ok(AcquireAnswer::Granted(None)), true, &[0, 1, 2]),
        (refused(), false, &[1, 2]),
        (not_sent(), false, &[1, 2]),
        (cross_slot(), false, &[1, 2]),
        (broken(), false, &[0, 1, 2]),
    ];
    for (answer, is_granted, touched) in table {
        let mut ledger = asked(false);
        let follow = ledger.acquire_answered(0, &answer, at_zero);
        assert_eq!(follow, Follow::Nothing, "{answer:?}");
        assert_eq!(ledger.granted().contains(0), is_granted, "{answer:?}");
        assert_eq!(ledger.touched(), set(touched), "{answer:?}");
    }
}

#[test]
fn of_several_keys_that_could_not_be_set_again_some_may_be_there() {
    for (answer, touched) in [(refused(), true), (not_sent(), true), (cross_slot(), false)] {
        let mut ledger = asked(true);
        ledger.acquire_answered(0, &Ok(AcquireAnswer::Granted(None)), at_zero);
        ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
        ledger.acquire_answered(0, &answer, at_zero);
        assert!(!ledger.granted().contains(0), "{answer:?}");
        assert_eq!(ledger.touched().contains(0), touched, "{answer:?}");
    }
}

#[test]
fn nothing_that_sets_a_key_begins_once_the_lock_is_over() {
    let mut ledger = Ledger::new(false, TTL, Moment::default());
    assert!(ledger.end());
    assert!(!ledger.end(), "the second end is no news");
    assert!(!ledger.begins(0));
    assert!(ledger.touched().is_empty());
}

#[test]
fn a_late_grant_is_released_unless_a_release_is_sure_to_follow_it() {
    let granted = || Ok(AcquireAnswer::Granted(None));
    // Sent before the end: the release that the end brings follows it.
    let mut ledger = asked(false);
    ledger.end();
    assert_eq!(
        ledger.acquire_answered(0, &granted(), at_zero),
        Follow::Nothing
    );

    // The end came between the decision to send it and the send: its release may have overtaken it.
    for (answer, follow) in [
        (granted(), Follow::Release),
        (broken(), Follow::Release),
        (refused(), Follow::Nothing),
        (not_sent(), Follow::Nothing),
        (cross_slot(), Follow::Nothing),
    ] {
        let mut ledger = Ledger::new(false, TTL, Moment::default());
        assert!(ledger.begins(0));
        ledger.end();
        ledger.is_sent(0);
        assert_eq!(
            ledger.acquire_answered(0, &answer, at_zero),
            follow,
            "{answer:?}"
        );
    }

    // The release has its answer already, so it went before.
    let mut ledger = asked(false);
    ledger.end();
    ledger.release_answered(0, &Ok(KeyAnswer::Missing), at_zero);
    assert_eq!(
        ledger.acquire_answered(0, &granted(), at_zero),
        Follow::Release
    );
}

#[test]
fn a_late_grant_of_a_lock_that_is_held_counts() {
    let mut ledger = asked(false);
    for node in 0..2 {
        ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
    }
    ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
    let follow = ledger.acquire_answered(2, &Ok(AcquireAnswer::Granted(None)), at_zero);
    assert_eq!(
        (follow, ledger.granted()),
        (Follow::Nothing, NodeSet::all(3))
    );
}

#[test]
fn a_lock_that_ended_meanwhile_is_not_won() {
    let mut ledger = asked(false);
    ledger.end();
    assert!(!ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO));
    assert_eq!(ledger.remaining_at(Duration::ZERO), Duration::ZERO);
}

#[test]
fn the_validity_never_goes_back_and_ends_with_the_lock() {
    let mut ledger = held();
    assert_eq!(ledger.remaining_at(40 * MS), 60 * MS);
    assert!(ledger.is_extended(Moment::default(), 150 * MS, Duration::ZERO));
    assert!(ledger.is_extended(Moment::default(), 120 * MS, Duration::ZERO));
    assert_eq!(ledger.remaining_at(100 * MS), 50 * MS);
    assert_eq!(ledger.remaining_at(150 * MS), Duration::ZERO);
    ledger.end();
    assert_eq!(ledger.remaining_at(100 * MS), Duration::ZERO);
}

#[test]
fn a_key_that_was_set_without_an_answer_counts_when_it_is_settled() {
    let yes = KeyAnswer::Ours;
    // Node 2 refused, and is not touched: its yes counts at once.
    assert!(held().extend_answered(2, yes, MS));

    let mut ledger = asked(false);
    for node in 0..2 {
        ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
    }
    ledger.acquire_answered(2, &broken(), at_zero);
    ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
    assert!(ledger.extend_answered(0, yes, MS));
    assert!(!ledger.extend_answered(2, yes, UNSETTLED - MS));
    assert!(ledger.extend_answered(2, yes, UNSETTLED));
    // From then on it is known to hold the key.
    assert!(ledger.granted().contains(2));

    // Setting it again makes it unsettled anew, where it is not known to be.
    ledger.extend_answered(2, KeyAnswer::Missing, UNSETTLED);
    assert!(!ledger.granted().contains(2));
    ledger.heals(2, UNSETTLED);
    assert!(!ledger.extend_answered(2, yes, UNSETTLED * 2 - MS));
    // Whose answer never came, since its runtime ended.
    assert!(ledger.extend_answered(2, yes, UNSETTLED * 2));
}

#[test]
fn a_key_that_was_set_again_counts_when_the_doubtful_command_before_is_settled() {
    let (yes, granted) = (KeyAnswer::Ours, Ok(AcquireAnswer::Granted(None)));
    let mut ledger = asked(false);
    ledger.acquire_answered(0, &granted, at_zero);
    ledger.acquire_answered(1, &granted, at_zero);
    ledger.acquire_answered(2, &broken(), at_zero);
    ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
    ledger.extend_answered(2, KeyAnswer::Missing, MS);
    ledger.heals(2, MS);
    ledger.acquire_answered(2, &granted, || 2 * MS);
    assert!(!ledger.extend_answered(2, yes, UNSETTLED - MS));
    assert!(ledger.extend_answered(2, yes, UNSETTLED));
}

#[test]
fn a_held_lock_missed_the_nodes_that_failed_and_none_that_refused() {
    let table: [(Answer, bool); 6] = [
        (Ok(AcquireAnswer::Granted(None)), false),
        (refused(), false),
        (not_sent(), true),
        (broken(), true),
        (cross_slot(), false),
        (Err(NodeError::server("NOPERM this user may not")), false),
    ];
    for (answer, is_missed) in table {
        let mut ledger = asked(false);
        for node in 0..2 {
            ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
        }
        ledger.acquire_answered(2, &answer, at_zero);
        assert!(ledger.missed().is_empty(), "it is not won yet");
        ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
        assert_eq!(ledger.missed().contains(2), is_missed, "{answer:?}");
        // Whatever a later try comes to counts.
        ledger.acquire_answered(2, &refused(), at_zero);
        assert!(ledger.missed().is_empty());
        ledger.acquire_answered(2, &broken(), at_zero);
        ledger.end();
        assert!(ledger.missed().is_empty(), "nothing is set any more");
    }
}

#[test]
fn a_fill_that_was_not_sent_or_refused_for_now_says_nothing_of_a_command_before_it() {
    let quarantine = || Err(NodeError::server("QUARANTINE 300 ms left"));
    for later in [not_sent(), quarantine()] {
        let mut ledger = asked(false);
        for node in 0..2 {
            ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
        }
        ledger.acquire_answered(2, &broken(), at_zero);
        ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
        ledger.acquire_answered(2, &later, at_zero);
        assert!(ledger.touched().contains(2), "{later:?}");
        assert!(ledger.missed().contains(2), "{later:?}");
    }
}

#[test]
fn a_key_that_is_set_again_at_one_node_unsettles_no_other() {
    let mut ledger = asked(false);
    for node in 0..2 {
        ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
    }
    ledger.acquire_answered(2, &broken(), at_zero);
    ledger.is_won(Duration::ZERO, 100 * MS, Duration::ZERO);
    ledger.extend_answered(1, KeyAnswer::Missing, MS);
    ledger.heals(1, UNSETTLED - MS);
    assert!(ledger.extend_answered(2, KeyAnswer::Ours, UNSETTLED));
    assert!(!ledger.extend_answered(1, KeyAnswer::Ours, UNSETTLED));
    ledger.acquire_answered(1, &not_sent(), || UNSETTLED);
    assert!(ledger.extend_answered(1, KeyAnswer::Ours, UNSETTLED));
}

#[test]
fn a_win_before_all_answers_leaves_the_others_unsettled() {
    let mut ledger = asked(false);
    for node in 0..2 {
        ledger.acquire_answered(node, &Ok(AcquireAnswer::Granted(None)), at_zero);
    }
    ledger.is_won(5 * MS, 100 * MS, Duration::ZERO);
    assert!(!ledger.extend_answered(2, KeyAnswer::Ours, 5 * MS));
    assert!(ledger.extend_answered(2, KeyAnswer::Ours, 5 * MS + UNSETTLED));
}

#[test]
fn a_lease_may_be_anywhere_and_counts_where_it_was_exchanged() {
    let mut ledger = Ledger::new(false, TTL, Moment::default());
    ledger.take_over(NodeSet::all(3));
    assert_eq!(ledger.touched(), NodeSet::all(3));
    assert_eq!(ledger.granted(), NodeSet::EMPTY);
    assert!(ledger.extend_answered(0, KeyAnswer::Ours, MS));
    assert!(!ledger.extend_answered(1, KeyAnswer::Foreign, MS));
    assert_eq!(ledger.granted(), set(&[0]));
    // What is set again may vanish again.
    ledger.heals(1, MS);
    assert!(ledger.extend_answered(0, KeyAnswer::Ours, MS));
    assert!(!ledger.extend_answered(1, KeyAnswer::Ours, MS));
}

#[test]
fn a_release_without_a_definite_answer_is_owed_until_the_longest_ttl_has_passed() {
    let mut ledger = held();
    ledger.note_ttl(2 * TTL);
    ledger.note_ttl(TTL);
    ledger.end_by_release(MS);
    assert_eq!(
        ledger.release_answered(0, &broken(), || MS),
        Follow::Owe {
            until: MS + 2 * TTL
        }
    );
    assert!(ledger.touched().contains(0));
    for answer in [KeyAnswer::Ours, KeyAnswer::Missing, KeyAnswer::Foreign] {
        let mut ledger = ledger.clone();
        assert_eq!(
            ledger.release_answered(0, &Ok(answer), at_zero),
            Follow::Nothing
        );
        assert_eq!(ledger.touched(), set(&[1]), "{answer:?}");
    }
}

#[test]
fn a_release_has_taken_the_key_or_may_have_if_it_began_in_time() {
    let table = [
        // began at, answer, then: is the key taken
        (MS, Ok(KeyAnswer::Ours), true),
        (MS, Ok(KeyAnswer::Missing), false),
        (MS, Ok(KeyAnswer::Foreign), false),
        (MS, broken(), true),
        (100 * MS, broken(), false),
        (100 * MS, Ok(KeyAnswer::Ours), true),
    ];
    for (began, answer, is_taken) in table {
        let mut ledger = held();
        ledger.end_by_release(began);
        ledger.release_answered(0, &answer, at_zero);
        assert_eq!(
            ledger.released().contains(0),
            is_taken,
            "{began:?} {answer:?}"
        );
    }
}

#[test]
fn a_promise_to_keep_the_lock_counts_from_the_moment_it_was_won() {
    let mut ledger = asked(false);
    ledger.is_won(7 * MS, 100 * MS, 50 * MS);
    assert_eq!(ledger.held_until(), 57 * MS);
    assert_eq!(held().held_until(), Duration::ZERO);
}

#[test]
fn a_key_that_one_command_set_is_known_though_another_one_was_not_sent() {
    let mut ledger = held();
    assert!(ledger.begins(2) && ledger.begins(2));
    ledger.acquire_answered(2, &not_sent(), at_zero);
    ledger.acquire_answered(2, &Ok(AcquireAnswer::Granted(None)), at_zero);
    assert!(ledger.touched().contains(2));
}

#[test]
fn a_lock_whose_holder_was_told_of_its_end_is_not_extended_any_more() {
    let mut ledger = held();
    ledger.expire();
    assert!(!ledger.is_extended(Moment::default(), 200 * MS, Duration::ZERO));
    assert_eq!(ledger.remaining_at(100 * MS), Duration::ZERO);
}
