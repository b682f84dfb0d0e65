use proptest::prelude::*;

use super::*;

#[test]
fn a_set_holds_what_was_put_in_and_not_taken_out() {
    let set = NodeSet::all(3).without(1).with(63);
    assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 63]);
    assert_eq!(NodeSet::EMPTY.iter().next(), None);
    assert!(NodeSet::all(64).iter().eq(0..64));
    assert_eq!((set.len(), set.is_empty()), (3, false));
    assert_eq!(NodeSet::all(64).len(), 64);
    assert!(NodeSet::EMPTY.is_empty());
}

fn standing(nodes: usize, granted: usize, refused: usize, open: usize) -> Standing {
    Quorum::majority(nodes).standing(Tally {
        granted,
        refused,
        open,
    })
}

#[test]
fn a_majority_is_of_all_nodes() {
    let needed = |nodes| Quorum::majority(nodes).needed();
    let majorities = [1, 2, 3, 4, 5, 6, 7, 64].map(needed);
    assert_eq!(majorities, [1, 2, 2, 3, 3, 4, 4, 33]);
}

#[test]
fn half_of_the_nodes_are_no_quorum_and_neither_are_more_than_all() {
    for (quorum, nodes) in [(0, 1), (2, 1), (1, 2), (3, 2), (2, 4), (2, 5), (6, 5)] {
        let error = BuildError::Quorum { quorum, nodes };
        assert_eq!(Quorum::new(quorum, nodes), Err(error));
    }
    for (quorum, nodes) in [(1, 1), (2, 2), (2, 3), (3, 4), (4, 5), (5, 5)] {
        assert!(Quorum::new(quorum, nodes).is_ok());
    }
}

#[test]
fn the_outcome_is_decided_at_the_first_moment_it_is_certain() {
    use Standing::*;
    let table = [
        // nodes, granted, refused, open
        (5, 3, 0, 2, Won),
        (5, 2, 2, 1, Open),
        (5, 2, 3, 0, Contended),
        (5, 0, 3, 2, Contended),
        // Two failed: the last vote decides between contention and outage.
        (5, 1, 1, 1, Open),
        (5, 1, 2, 0, Contended),
        (5, 1, 1, 0, Unavailable),
        (5, 2, 0, 0, Unavailable),
        (5, 0, 0, 2, Unavailable),
        (1, 0, 1, 0, Contended),
        (1, 0, 0, 0, Unavailable),
        (2, 1, 1, 0, Contended),
        (2, 1, 0, 0, Unavailable),
        (2, 1, 0, 1, Open),
        (4, 2, 2, 0, Contended),
    ];
    for (nodes, granted, refused, open, expected) in table {
        let got = standing(nodes, granted, refused, open);
        assert_eq!(got, expected, "{nodes}: {granted} {refused} {open}");
    }
}

proptest! {
    /// Whatever the votes are and in whatever order they come, the early decision is the one
    /// that all votes together lead to.
    #[test]
    fn an_early_decision_is_never_overturned(
        votes in prop::collection::vec(0_u8..3, 1..12),
        extra in 0_usize..6,
    ) {
        let nodes = votes.len();
        let majority = nodes / 2 + 1;
        let quorum = Quorum::new((majority + extra).min(nodes), nodes).unwrap();
        let mut tally = Tally { granted: 0, refused: 0, open: nodes };
        let mut decided = quorum.standing(tally);
        prop_assert_eq!(decided, Standing::Open);
        for vote in votes {
            tally.open -= 1;
            tally.granted += usize::from(vote == 0);
            tally.refused += usize::from(vote == 1);
            let now = quorum.standing(tally);
            prop_assert!(decided == Standing::Open || decided == now);
            decided = now;
        }
        prop_assert_ne!(decided, Standing::Open);
        prop_assert_eq!(decided == Standing::Won, tally.granted >= quorum.needed());
        let answered = tally.granted + tally.refused;
        prop_assert_eq!(decided == Standing::Unavailable, answered < quorum.needed());
    }

    /// Two sets of nodes that each reach the quorum share a node, so two holders would need
    /// one node to grant twice.
    #[test]
    fn two_quorums_share_a_node(nodes in 1_usize..=64, extra in 0_usize..64) {
        let needed = (nodes / 2 + 1 + extra).min(nodes);
        let quorum = Quorum::new(needed, nodes).unwrap();
        prop_assert!(!quorum.reached(nodes - needed));
        prop_assert!(quorum.blocked(needed));
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_node_is_given_up_when_its_own_time_is_over() {
    let mut ballots = Ballots::<()>::new(3);
    ballots.ask(0, 10 * MS, 100 * MS);
    ballots.ask(1, 10 * MS, 1000 * MS);
    assert_eq!(ballots.next_deadline(), Some(110 * MS));
    assert_eq!(ballots.expire(109 * MS), NodeSet::EMPTY);
    assert_eq!(ballots.expire(110 * MS), NodeSet::of(0));
    assert_eq!(ballots.next_deadline(), Some(1010 * MS));
    assert_eq!((ballots.open(), ballots.unasked()), (1, NodeSet::of(2)));
    assert!(ballots.has_failed(0));
}

#[test]
fn an_answer_after_the_node_was_given_up_still_counts() {
    let mut ballots = Ballots::new(1);
    ballots.ask(0, Duration::ZERO, MS);
    ballots.expire(MS);
    ballots.record(0, Ok(7));
    assert_eq!(ballots.answer(0), Some(&7));
}
