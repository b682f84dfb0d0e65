//! How many votes decide.

use crate::error::BuildError;

/// How many of all configured nodes must agree; never counted over the reachable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    needed: usize,
    nodes: usize,
}

/// Where a vote stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) granted: usize,
    pub(crate) refused: usize,
    /// Not answered yet, or not asked yet.
    pub(crate) open: usize,
}

/// What a vote has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A quorum granted.
    Won,
    /// No quorum can grant, and a quorum of nodes answered.
    Contended,
    /// No quorum can grant, and no quorum of nodes can answer.
    Unavailable,
    /// The votes that are open may change the outcome.
    Open,
}

impl Quorum {
    /// More than half of all nodes.
    pub(crate) fn majority(nodes: usize) -> Self {
        let needed = nodes / 2 + 1;
        Self { needed, nodes }
    }

    /// A quorum that any two holders would have to share a node of.
    pub(crate) fn new(needed: usize, nodes: usize) -> Result<Self, BuildError> {
        if needed <= nodes / 2 || needed > nodes {
            let quorum = needed;
            return Err(BuildError::Quorum { quorum, nodes });
        }
        Ok(Self { needed, nodes })
    }

    pub(crate) fn needed(self) -> usize {
        self.needed
    }

    pub(crate) fn nodes(self) -> usize {
        self.nodes
    }

    /// Whether so many votes are enough.
    pub(crate) fn reached(self, votes: usize) -> bool {
        if mutant!(QuorumMinusOne) {
            return votes >= (self.needed - 1).max(1);
        }
        votes >= self.needed
    }

    /// Whether so many nodes that will not agree put a quorum out of reach.
    pub(crate) fn blocked(self, against: usize) -> bool {
        self.nodes - against.min(self.nodes) < self.needed
    }

    /// Decides at the first moment at which the outcome is certain.
    ///
    /// Once no quorum can grant, open votes may still turn an outage into contention: as long as
    /// they may, the vote is open.
    pub(crate) fn standing(self, tally: Tally) -> Standing {
        let Tally {
            granted,
            refused,
            open,
        } = tally;
        let is_enough = mutant!(QuorumOfReachable) && open == 0 && 2 * granted > granted + refused;
        if self.reached(granted) || is_enough {
            Standing::Won
        } else if self.reached(granted + open) {
            Standing::Open
        } else if self.reached(granted + refused) {
            if mutant!(ContentionAsOutage) {
                return Standing::Unavailable;
            }
            Standing::Contended
        } else if self.reached(granted + refused + open) {
            Standing::Open
        } else if mutant!(OutageAsContention) {
            Standing::Contended
        } else {
            Standing::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
