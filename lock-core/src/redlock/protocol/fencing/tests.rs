use std::time::Duration;

use proptest::prelude::*;

use super::super::{AcquireAnswer, AcquireRound, Step, Verdict};
use super::*;
use crate::node::NodeError;

const MS: Duration = Duration::from_millis(1);

fn number(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn nodes<const N: usize>(nodes: [usize; N]) -> NodeSet {
    nodes.into_iter().fold(NodeSet::EMPTY, NodeSet::with)
}

/// A round in which all nodes were asked, at 0 ms and for 100 ms.
fn round(count: usize) -> AcquireRound {
    let mut round = AcquireRound::new(Quorum::majority(count), None, None).with_fencing();
    for node in 0..count {
        round.asked(node, Duration::ZERO, 100 * MS);
    }
    round
}

/// A node grants with this number at 10 ms, and whoever has to confirm may take 100 ms.
fn grant(round: &mut AcquireRound, node: usize, n: u64) -> Vec<(usize, u64)> {
    let vote = Ok(AcquireAnswer::Granted(Some(number(n))));
    let to_confirm = round.handle_vote(node, vote, |_| (10 * MS, 100 * MS));
    let plain = |(node, granted): (usize, FencingToken)| (node, granted.get());
    to_confirm.into_iter().map(plain).collect()
}

fn fail(round: &mut AcquireRound, node: usize) {
    let vote = Err(NodeError::connection("broken"));
    assert_eq!(round.handle_vote(node, vote, |_| (10 * MS, 100 * MS)), []);
}

fn verdict(round: &AcquireRound) -> Verdict {
    round.verdict(50 * MS, 1_000 * MS, &[])
}

#[test]
fn what_a_grant_comes_to_depends_on_whether_the_token_is_fixed_and_how_it_compares() {
    let to_confirm = |nodes| Grant::Fixes { to_confirm: nodes };
    let mut fencing = Fencing::new(Quorum::majority(5));
    let table = [
        (0, 5, Grant::Counts, None),
        (1, 7, Grant::Counts, None),
        (2, 5, to_confirm(nodes([0, 2])), Some(7)),
        (3, 7, Grant::Counts, Some(7)),
        (4, 8, Grant::Above, Some(7)),
    ];
    for (node, granted, comes_to, token) in table {
        assert_eq!(fencing.grant(node, number(granted)), comes_to, "{node}");
        assert_eq!(fencing.token(), token.map(number), "{node}");
    }
    let mut fencing = Fencing::new(Quorum::majority(3));
    fencing.grant(0, number(7));
    fencing.grant(1, number(7));
    assert_eq!(fencing.grant(2, number(6)), Grant::Below);
}

#[test]
fn nodes_in_step_need_one_round_trip() {
    let mut round = round(5);
    for node in [4, 0, 2] {
        assert_eq!(grant(&mut round, node, 7), []);
    }
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), Verdict::Won);
    assert_eq!(round.fencing_token(), Some(number(7)));
}

#[test]
fn a_single_node_needs_nobody_to_confirm() {
    let mut round = round(1);
    assert_eq!(grant(&mut round, 0, 3), []);
    assert_eq!(verdict(&round), Verdict::Won);
}

#[test]
fn nodes_below_the_token_are_votes_only_when_they_have_confirmed_it() {
    let mut round = round(3);
    assert_eq!(grant(&mut round, 0, 5), []);
    assert_eq!(grant(&mut round, 1, 7), [(0, 5)]);
    assert_eq!(round.step(), Step::Wait(100 * MS), "the third may grant it");
    round.handle_confirmation(0, Ok(()));
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), Verdict::Won);
    assert_eq!(round.fencing_token(), Some(number(7)));
}

#[test]
fn a_later_grant_counts_at_the_token_has_to_confirm_it_below_and_never_counts_above() {
    let open = || {
        let mut round = round(3);
        grant(&mut round, 0, 5);
        grant(&mut round, 1, 7);
        round
    };
    let mut at = open();
    assert_eq!(grant(&mut at, 2, 7), []);
    assert_eq!(verdict(&at), Verdict::Won);

    let mut below = open();
    assert_eq!(grant(&mut below, 2, 6), [(2, 6)]);
    assert_eq!(below.step(), Step::Wait(110 * MS));
    below.handle_confirmation(2, Ok(()));
    assert_eq!(verdict(&below), Verdict::Won);

    let mut above = open();
    assert_eq!(grant(&mut above, 2, 8), []);
    assert_eq!(above.step(), Step::Wait(110 * MS));
    above.handle_confirmation(0, Err(NodeError::connection("gone")));
    assert_eq!(above.fencing_token(), Some(number(7)), "it stays");
    assert!(matches!(verdict(&above), Verdict::Unavailable { .. }));
}

#[test]
fn without_a_quorum_of_votes_the_round_is_lost_however_many_have_granted() {
    let mut round = round(3);
    fail(&mut round, 2);
    grant(&mut round, 0, 5);
    grant(&mut round, 1, 7);
    assert_eq!(round.step(), Step::Wait(110 * MS));
    let late = round.handle_time(110 * MS);
    assert_eq!(late, nodes([0]));
    assert!(matches!(verdict(&round), Verdict::Unavailable { .. }));
    let too_late = round.verdict(50 * MS, 40 * MS, &[]);
    assert_eq!(too_late, Verdict::TooLate, "the keys may have expired");
    round.handle_confirmation(0, Ok(()));
    assert_eq!(
        verdict(&round),
        Verdict::Won,
        "an answer counts when it comes"
    );
}

#[test]
fn the_callers_deadline_cuts_a_round_that_waits_for_confirmations() {
    let cut_at = Some(20 * MS);
    let mut round = AcquireRound::new(Quorum::majority(3), None, cut_at).with_fencing();
    for node in 0..3 {
        round.asked(node, Duration::ZERO, 100 * MS);
    }
    grant(&mut round, 0, 5);
    grant(&mut round, 1, 7);
    assert_eq!(round.step(), Step::Wait(20 * MS));
    round.handle_time(20 * MS);
    assert_eq!(round.step(), Step::Decided(()));
    assert!(!round.is_whole());
}

/// A node as the scripts see it. Its clock shows what the test says.
#[derive(Clone, Debug, Default)]
struct Node {
    held_by: Option<usize>,
    counter: Option<(u64, usize)>,
}

impl Node {
    fn acquire(&mut self, attempt: usize, clock: u64) -> Option<u64> {
        if self.held_by.is_some() {
            return None;
        }
        let number = self.counter.map_or(clock, |(number, _)| number + 1);
        (self.held_by, self.counter) = (Some(attempt), Some((number, attempt)));
        Some(number)
    }

    fn confirm(&mut self, attempt: usize, granted: u64, raised: u64) -> bool {
        let is_held = self.held_by == Some(attempt) && self.counter == Some((granted, attempt));
        if is_held {
            self.counter = Some((raised, attempt));
        }
        is_held
    }
}

/// What becomes of one node in one attempt.
#[derive(Clone, Debug)]
struct Luck {
    /// Earlier ones come first.
    order: u8,
    answers: bool,
    /// The key vanishes between grant and confirmation.
    loses_key: bool,
    confirms: bool,
    /// Its counter vanishes before the attempt; its clock is right by then.
    loses_counter: bool,
}

fn luck() -> impl Strategy<Value = Luck> {
    let likely = || prop::bool::weighted(0.8);
    let rarely = || prop::bool::weighted(0.1);
    (any::<u8>(), likely(), rarely(), likely(), rarely()).prop_map(
        |(order, answers, loses_key, confirms, loses_counter)| Luck {
            order,
            answers,
            loses_key,
            confirms,
            loses_counter,
        },
    )
}

/// Carries one attempt out. Returns its token if it was won.
fn attempt(nodes: &mut [Node], number: usize, lucks: &[Luck], clock: u64) -> Option<u64> {
    let mut round = round(nodes.len());
    let mut order: Vec<_> = (0..nodes.len()).collect();
    order.sort_by_key(|node| lucks[*node].order);
    let mut to_confirm = Vec::new();
    for node in order {
        let luck = &lucks[node];
        if luck.loses_counter {
            nodes[node].counter = None;
        }
        match nodes[node].acquire(number, clock + u64::from(luck.order)) {
            Some(granted) if luck.answers => {
                to_confirm.extend(grant(&mut round, node, granted));
            }
            _ => fail(&mut round, node),
        }
    }
    let token = round.fencing_token().map(FencingToken::get);
    for (node, granted) in to_confirm {
        if lucks[node].loses_key {
            nodes[node].held_by = None;
        }
        let raised = token.unwrap_or_default();
        let is_confirmed = nodes[node].confirm(number, granted, raised) && lucks[node].confirms;
        let answer = is_confirmed.then_some(());
        round.handle_confirmation(node, answer.ok_or(NodeError::connection("not confirmed")));
    }
    token.filter(|_| verdict(&round) == Verdict::Won)
}

proptest! {
    /// Attempts one behind the other, on nodes that do not answer, lose keys and counters, and confirm
    /// without an answer. Clocks run behind all tokens as long as no counter is lost.
    #[test]
    fn each_token_is_larger_than_all_before(
        count in 1..=7_usize,
        attempts in prop::collection::vec(prop::collection::vec(luck(), 7), 1..40),
    ) {
        let mut nodes = vec![Node::default(); count];
        let mut largest = 0;
        for (number, lucks) in attempts.iter().enumerate() {
            // Above all counters: what a clock of microseconds is to a few acquisitions.
            let clock = 1_000 * (number as u64 + 1);
            if let Some(token) = attempt(&mut nodes, number, lucks, clock) {
                prop_assert!(token > largest, "{token} after {largest}");
                largest = token;
            }
            // Released, or expired.
            nodes.iter_mut().for_each(|node| node.held_by = None);
        }
    }
}
