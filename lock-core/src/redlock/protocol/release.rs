//! The votes on a release.

use super::{Ballots, KeyAnswer, NodeSet, Quorum, Step};
use crate::node::NodeError;

/// One round of releases, to the nodes where something of ours may be.
#[derive(Debug)]
pub(crate) struct ReleaseRound {
    quorum: Quorum,
    pub(crate) ballots: Ballots<KeyAnswer>,
    released: NodeSet,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseVerdict {
    /// The lock was held, and no quorum of nodes holds it any more.
    Released,
    /// The lock was not held any more: no quorum of nodes can have had it.
    NotHeld,
    /// Too few nodes answered.
    Unavailable,
}

impl ReleaseRound {
    /// A round in which the nodes outside `asked` count as having answered that nothing is there.
    /// Where an earlier release of the same lock has taken the key, or may have, the key counts as
    /// `released`, whoever has it now.
    pub(crate) fn new(quorum: Quorum, asked: NodeSet, released: NodeSet) -> Self {
        let mut round = Self {
            quorum,
            ballots: Ballots::new(quorum.nodes()),
            released,
        };
        for node in (0..quorum.nodes()).filter(|node| !asked.contains(*node)) {
            round.handle_vote(node, Ok(KeyAnswer::Missing));
        }
        round
    }

    pub(crate) fn handle_vote(&mut self, node: usize, vote: Result<KeyAnswer, NodeError>) {
        let vote = match vote {
            Ok(_) if self.released.contains(node) => Ok(KeyAnswer::Ours),
            vote => vote,
        };
        self.ballots.record(node, vote);
    }

    pub(crate) fn step(&self) -> Step<ReleaseVerdict> {
        self.ballots.step(|| self.verdict())
    }

    /// The verdict, at the first moment at which it is certain.
    pub(crate) fn verdict(&self) -> Option<ReleaseVerdict> {
        let released = self.ballots.ours();
        let answered = self.ballots.answered();
        if self.quorum.reached(released) {
            return Some(ReleaseVerdict::Released);
        }
        // A node that has not answered may have held it.
        if self.quorum.blocked(answered - released) {
            return Some(ReleaseVerdict::NotHeld);
        }
        if self.ballots.open() > 0 {
            return None;
        }
        Some(if self.quorum.reached(answered) {
            ReleaseVerdict::Released
        } else {
            ReleaseVerdict::Unavailable
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// `r` released, `m` missing, `f` foreign, `x` failed, `.` open, `-` not asked.
    fn round(votes: &str) -> ReleaseRound {
        let asked = votes
            .char_indices()
            .filter(|(_, vote)| *vote != '-')
            .fold(NodeSet::EMPTY, |set, (node, _)| set.with(node));
        let mut round = ReleaseRound::new(Quorum::majority(votes.len()), asked, NodeSet::EMPTY);
        for (node, vote) in votes.char_indices() {
            match vote {
                'r' => round.handle_vote(node, Ok(KeyAnswer::Ours)),
                'm' => round.handle_vote(node, Ok(KeyAnswer::Missing)),
                'f' => round.handle_vote(node, Ok(KeyAnswer::Foreign)),
                'x' => round.handle_vote(node, Err(NodeError::connection("broken"))),
                '.' => round.ballots.ask(node, Duration::ZERO, 100 * MS),
                _ => {}
            }
        }
        round
    }

    #[test]
    fn a_release_returns_at_the_quorum_and_tells_a_lost_lock_from_an_outage() {
        use ReleaseVerdict::*;
        let table = [
            ("rrr..", Some(Released)),
            ("rr...", None),
            // Acquired at three nodes only.
            ("rrr--", Some(Released)),
            ("rr.--", None),
            // One of the three does not answer: whatever it holds is no quorum.
            ("rrx--", Some(Released)),
            ("mmm..", Some(NotHeld)),
            ("fff..", Some(NotHeld)),
            ("mfr..", None),
            ("mfrrr", Some(Released)),
            ("mfrrm", Some(NotHeld)),
            ("mm...", None),
            ("mmxxx", Some(Unavailable)),
            ("xxx..", None),
            ("xxxrr", Some(Unavailable)),
            ("xxxxx", Some(Unavailable)),
            ("r", Some(Released)),
            ("m", Some(NotHeld)),
            ("x", Some(Unavailable)),
            ("rr", Some(Released)),
            ("rm", Some(NotHeld)),
            ("rx", Some(Unavailable)),
        ];
        for (votes, expected) in table {
            assert_eq!(round(votes).verdict(), expected, "{votes}");
        }
    }

    #[test]
    fn what_an_earlier_release_took_is_not_missed() {
        let asked = NodeSet::all(3).without(0);
        let released = NodeSet::all(3).without(2);
        for now in [KeyAnswer::Missing, KeyAnswer::Foreign] {
            let mut round = ReleaseRound::new(Quorum::majority(3), asked, released);
            round.ballots.ask(1, Duration::ZERO, 100 * MS);
            round.ballots.ask(2, Duration::ZERO, 100 * MS);
            assert_eq!(round.verdict(), None);
            round.handle_vote(2, Ok(now));
            assert_eq!(round.verdict(), None);
            round.handle_vote(1, Ok(now));
            assert_eq!(round.verdict(), Some(ReleaseVerdict::Released));
        }
    }

    #[test]
    fn a_node_that_does_not_answer_in_time_is_not_waited_for() {
        let mut round = ReleaseRound::new(Quorum::majority(1), NodeSet::all(1), NodeSet::EMPTY);
        round.ballots.ask(0, Duration::ZERO, 100 * MS);
        assert_eq!(round.ballots.next_deadline(), Some(100 * MS));
        assert_eq!(round.ballots.expire(100 * MS), NodeSet::of(0));
        assert_eq!(round.verdict(), Some(ReleaseVerdict::Unavailable));
    }
}
