use super::*;

const MS: Duration = Duration::from_millis(1);

fn round(nodes: usize) -> AcquireRound {
    let mut round = AcquireRound::new(Quorum::majority(nodes), None, None);
    ask(&mut round);
    round
}

fn ask(round: &mut AcquireRound) {
    if let Step::Ask(nodes) = round.step() {
        for node in nodes.iter() {
            round.asked(node, Duration::ZERO, 100 * MS);
        }
    }
}

fn vote(round: &mut AcquireRound, node: usize, vote: Result<AcquireAnswer, NodeError>) {
    let to_confirm = round.handle_vote(node, vote, |_| panic!("nothing is to be confirmed"));
    assert_eq!(to_confirm, []);
}

fn granted(round: &mut AcquireRound, node: usize) {
    vote(round, node, Ok(AcquireAnswer::Granted(None)));
}

fn refused(round: &mut AcquireRound, node: usize) {
    vote(round, node, Ok(AcquireAnswer::Refused(None)));
}

fn named(round: &mut AcquireRound, node: usize, token: &str, ttl: u64) {
    let token = Some(token.as_bytes().to_vec());
    let ttl = Some(Duration::from_millis(ttl));
    let refused = AcquireAnswer::Refused(Some(LockKey { token, ttl }));
    vote(round, node, Ok(refused));
}

fn failed(round: &mut AcquireRound, node: usize) {
    vote(round, node, Err(NodeError::connection("broken")));
}

fn verdict(round: &AcquireRound) -> Verdict {
    round.verdict(5 * MS, 10 * MS, &[])
}

fn contended(split: bool) -> Verdict {
    let holder = None;
    Verdict::Contended { holder, split }
}

#[test]
fn all_nodes_are_asked_at_once_and_the_quorum_th_grant_decides() {
    let mut round = AcquireRound::new(Quorum::majority(5), None, None);
    assert_eq!(round.step(), Step::Ask(NodeSet::all(5)));
    ask(&mut round);
    granted(&mut round, 4);
    granted(&mut round, 0);
    assert_eq!(round.step(), Step::Wait(100 * MS));
    granted(&mut round, 2);
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), Verdict::Won);
}

#[test]
fn a_hung_minority_is_not_waited_for_and_a_hung_majority_for_one_node_timeout() {
    let mut minority = round(5);
    for node in 0..3 {
        granted(&mut minority, node);
    }
    assert_eq!(minority.step(), Step::Decided(()));

    let mut majority = round(5);
    granted(&mut majority, 0);
    granted(&mut majority, 1);
    assert_eq!(majority.step(), Step::Wait(100 * MS));
    let late = majority.handle_time(100 * MS);
    assert_eq!(late, NodeSet::all(5).without(0).without(1));
    assert_eq!(majority.step(), Step::Decided(()));
    assert_eq!(verdict(&majority), Verdict::Unavailable { denied: false });
}

#[test]
fn an_open_vote_that_may_turn_an_outage_into_contention_is_waited_for() {
    let mut round = round(5);
    failed(&mut round, 0);
    failed(&mut round, 1);
    refused(&mut round, 2);
    granted(&mut round, 3);
    assert_eq!(round.step(), Step::Wait(100 * MS));
    refused(&mut round, 4);
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), contended(true));
}

#[test]
fn refused_everywhere_is_held_and_shared_votes_are_split() {
    let mut held = round(3);
    refused(&mut held, 0);
    refused(&mut held, 1);
    assert_eq!(verdict(&held), contended(false));

    let mut split = round(3);
    granted(&mut split, 0);
    refused(&mut split, 1);
    refused(&mut split, 2);
    assert_eq!(verdict(&split), contended(true));

    let mut tie = round(2);
    granted(&mut tie, 0);
    refused(&mut tie, 1);
    assert_eq!(tie.step(), Step::Decided(()));
    assert_eq!(verdict(&tie), contended(true));
}

#[test]
fn the_holder_is_the_one_that_a_quorum_of_refusals_names() {
    let mut one = round(5);
    granted(&mut one, 0);
    granted(&mut one, 4);
    for node in 1..4 {
        named(&mut one, node, "a", 10 + node as u64);
    }
    let Verdict::Contended { holder, split } = verdict(&one) else {
        panic!("{one:?}");
    };
    assert_eq!(holder.unwrap().token.as_deref(), Some(&b"a"[..]));
    assert!(!split);
    assert_eq!(one.longest_holder().unwrap().ttl, Some(13 * MS));

    let mut rivals = round(5);
    named(&mut rivals, 0, "a", 1);
    named(&mut rivals, 1, "a", 1);
    named(&mut rivals, 2, "b", 1);
    assert_eq!(verdict(&rivals), contended(true));

    let mut one_of_three_knows = round(5);
    named(&mut one_of_three_knows, 0, "a", 1);
    refused(&mut one_of_three_knows, 1);
    refused(&mut one_of_three_knows, 2);
    assert_eq!(verdict(&one_of_three_knows), contended(false));
}

#[test]
fn votes_are_split_where_nodes_name_different_holders_and_not_where_they_agree() {
    // Each character is the token that a node names; `-` names none. No quorum of five agrees.
    let table = [
        ("-----", false),
        ("a----", false),
        ("aa---", false),
        ("ab---", true),
        ("-a-b-", true),
        ("aab--", true),
        ("abb--", true),
    ];
    for (names, split) in table {
        let mut round = round(5);
        for (node, name) in names.char_indices() {
            match name {
                '-' => refused(&mut round, node),
                _ => named(&mut round, node, &name.to_string(), 1),
            }
        }
        assert_eq!(verdict(&round), contended(split), "{names}");
    }
}

#[test]
fn what_an_earlier_attempt_of_the_same_caller_left_behind_is_no_other_holder() {
    let own = Token::from_random([7; 16]);
    let mut round = round(3);
    named(&mut round, 0, own.as_str(), 1);
    named(&mut round, 1, own.as_str(), 1);
    assert_eq!(round.verdict(MS, 9 * MS, &[own]), contended(true));
    let Verdict::Contended { holder, .. } = verdict(&round) else {
        panic!("{round:?}");
    };
    assert!(holder.is_some());
}

#[test]
fn the_first_node_alone_is_asked_first_and_its_refusal_is_a_veto() {
    let mut round = AcquireRound::new(Quorum::majority(3), Some(1), None);
    assert_eq!(round.step(), Step::Ask(NodeSet::of(1)));
    ask(&mut round);
    assert_eq!(round.step(), Step::Wait(100 * MS));
    refused(&mut round, 1);
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), Verdict::Vetoed);
    assert!(!round.is_whole());
}

#[test]
fn the_others_are_asked_when_the_first_grants_fails_or_does_not_answer() {
    type Vote = fn(&mut AcquireRound);
    let votes: [Vote; 3] = [
        |round| granted(round, 1),
        |round| failed(round, 1),
        |round| assert_eq!(round.handle_time(100 * MS), NodeSet::of(1)),
    ];
    for vote in votes {
        let mut round = AcquireRound::new(Quorum::majority(3), Some(1), None);
        ask(&mut round);
        vote(&mut round);
        let others = NodeSet::all(3).without(1);
        assert_eq!(round.step(), Step::Ask(others));
        ask(&mut round);
        // A refusal that comes late is one vote, no veto.
        refused(&mut round, 1);
        granted(&mut round, 0);
        granted(&mut round, 2);
        assert_eq!(verdict(&round), Verdict::Won);
    }
}

#[test]
fn the_only_node_cannot_veto_itself() {
    let mut round = AcquireRound::new(Quorum::majority(1), Some(0), None);
    ask(&mut round);
    refused(&mut round, 0);
    assert_eq!(round.step(), Step::Decided(()));
    assert_eq!(verdict(&round), contended(false));
    assert!(round.is_whole());
}

#[test]
fn the_callers_deadline_ends_an_undecided_round_and_makes_nobody_late() {
    let mut round = AcquireRound::new(Quorum::majority(3), None, Some(40 * MS));
    ask(&mut round);
    granted(&mut round, 0);
    assert_eq!(round.step(), Step::Wait(40 * MS));
    assert_eq!(round.handle_time(40 * MS), NodeSet::EMPTY);
    assert_eq!(round.step(), Step::Decided(()));
    assert!(!round.is_whole());
    assert_ne!(verdict(&round), Verdict::Won);
}

#[test]
fn nobody_is_asked_at_or_after_the_callers_deadline() {
    let mut whole = AcquireRound::new(Quorum::majority(3), None, Some(40 * MS));
    whole.handle_time(40 * MS);
    assert_eq!(whole.step(), Step::Decided(()));
    assert!(!whole.is_whole());

    let mut in_turn = AcquireRound::new(Quorum::majority(3), Some(1), Some(40 * MS));
    ask(&mut in_turn);
    granted(&mut in_turn, 1);
    in_turn.handle_time(40 * MS);
    assert_eq!(in_turn.step(), Step::Decided(()));
}

#[test]
fn causes_are_not_waited_for_beyond_the_callers_deadline() {
    let mut round = AcquireRound::new(Quorum::majority(3), None, Some(4 * MS));
    ask(&mut round);
    failed(&mut round, 0);
    failed(&mut round, 1);
    assert_eq!(round.step(), Step::Wait(4 * MS));
    assert_eq!(round.handle_time(4 * MS), NodeSet::EMPTY);
    assert_eq!(round.step(), Step::Decided(()));
    // The outage was certain by then.
    assert!(round.is_whole());
}

#[test]
fn a_late_majority_is_no_lock() {
    let mut round = round(3);
    granted(&mut round, 0);
    granted(&mut round, 1);
    assert_eq!(round.verdict(9 * MS, 10 * MS, &[]), Verdict::Won);
    assert_eq!(round.verdict(10 * MS, 10 * MS, &[]), Verdict::TooLate);
}

#[test]
fn an_outage_waits_for_a_moment_for_the_causes_of_the_others() {
    let mut round = round(3);
    failed(&mut round, 0);
    failed(&mut round, 1);
    assert_eq!(round.step(), Step::Wait(10 * MS));
    assert_eq!(round.handle_time(10 * MS), NodeSet::EMPTY);
    assert_eq!(round.step(), Step::Decided(()));

    let mut prompt = self::round(3);
    for node in 0..3 {
        failed(&mut prompt, node);
    }
    assert_eq!(prompt.step(), Step::Decided(()));
}

#[test]
fn missing_permissions_are_told_apart_only_when_they_alone_decide() {
    let denied = || NodeError::server("NOPERM no");
    for line in ["WRONGPASS no", "CROSSSLOT no", "MOVED 1 b:2", "ASK 1 b:2"] {
        let mut two = round(3);
        vote(&mut two, 0, Err(denied()));
        vote(&mut two, 1, Err(NodeError::server(line)));
        assert_eq!(verdict(&two), Verdict::Unavailable { denied: true });
    }

    let mut one = round(3);
    vote(&mut one, 0, Err(denied()));
    failed(&mut one, 1);
    assert_eq!(verdict(&one), Verdict::Unavailable { denied: false });
}
