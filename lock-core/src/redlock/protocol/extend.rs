//! The votes on an extension.

use super::{Ballots, KeyAnswer, NodeSet, Quorum, Step};

/// One round of extensions.
#[derive(Debug)]
pub(crate) struct ExtendRound {
    quorum: Quorum,
    pub(crate) ballots: Ballots<KeyAnswer>,
}

/// What an extension came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendVerdict {
    /// A quorum of nodes extended the lock.
    Extended,
    /// No quorum of nodes can hold the lock any more.
    Lost,
    /// Too few nodes answered; the old validity stands.
    Unavailable,
}

impl ExtendRound {
    pub(crate) fn new(quorum: Quorum) -> Self {
        let ballots = Ballots::new(quorum.nodes());
        Self { quorum, ballots }
    }

    /// The nodes that have forgotten the key: they get it again once the round is won. They vote
    /// from the next round on.
    pub(crate) fn missing(&self) -> NodeSet {
        let missing =
            |(node, answer): (usize, &KeyAnswer)| (*answer == KeyAnswer::Missing).then_some(node);
        let nodes = self.ballots.answers().filter_map(missing);
        nodes.fold(NodeSet::EMPTY, NodeSet::with)
    }

    pub(crate) fn step(&self) -> Step<ExtendVerdict> {
        self.ballots.step(|| self.verdict())
    }

    /// The verdict, at the first moment at which it is certain.
    pub(crate) fn verdict(&self) -> Option<ExtendVerdict> {
        let mut extended = self.ballots.ours();
        let mut gone = self.ballots.answered() - extended;
        if mutant!(HealedKeysVote) {
            let missing = self.missing().len();
            (extended, gone) = (extended + missing, gone - missing);
        }
        if mutant!(ExtendByReachable) && self.ballots.open() == 0 && extended > gone {
            return Some(ExtendVerdict::Extended);
        }
        verdict(self.quorum, extended, gone, self.ballots.open())
    }
}

/// What so many votes mean for an extension. The quorum is of all nodes.
pub(super) fn verdict(
    quorum: Quorum,
    extended: usize,
    gone: usize,
    open: usize,
) -> Option<ExtendVerdict> {
    if quorum.reached(extended) {
        Some(ExtendVerdict::Extended)
    } else if quorum.blocked(gone) {
        Some(ExtendVerdict::Lost)
    } else if open > 0 {
        // Even when no quorum can extend any more, the open votes may tell a loss.
        None
    } else {
        Some(ExtendVerdict::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::NodeError;

    /// `e` extended, `m` missing, `f` foreign, `x` failed, `.` open.
    fn round(votes: &str) -> ExtendRound {
        let mut round = ExtendRound::new(Quorum::majority(votes.len()));
        for (node, vote) in votes.char_indices() {
            match vote {
                'e' => round.ballots.record(node, Ok(KeyAnswer::Ours)),
                'm' => round.ballots.record(node, Ok(KeyAnswer::Missing)),
                'f' => round.ballots.record(node, Ok(KeyAnswer::Foreign)),
                'x' => round
                    .ballots
                    .record(node, Err(NodeError::connection("broken"))),
                _ => round
                    .ballots
                    .ask(node, Duration::ZERO, Duration::from_millis(100)),
            }
        }
        round
    }

    #[test]
    fn an_extension_needs_a_quorum_of_all_nodes() {
        use ExtendVerdict::*;
        let table = [
            ("eee..", Some(Extended)),
            ("ee...", None),
            ("eexx.", None),
            ("eexxx", Some(Unavailable)),
            ("eexxm", Some(Unavailable)),
            ("mmm..", Some(Lost)),
            ("mff..", Some(Lost)),
            ("eemmx", Some(Unavailable)),
            ("eemmm", Some(Lost)),
            ("e", Some(Extended)),
            ("m", Some(Lost)),
            ("x", Some(Unavailable)),
            ("em", Some(Lost)),
            ("ex", Some(Unavailable)),
        ];
        for (votes, expected) in table {
            assert_eq!(round(votes).verdict(), expected, "{votes}");
        }
    }

    #[test]
    fn nodes_that_forgot_the_key_are_found_and_a_successors_key_is_none_of_them() {
        let expected = NodeSet::EMPTY.with(1).with(4);
        assert_eq!(round("emefm").missing(), expected);
    }
}
