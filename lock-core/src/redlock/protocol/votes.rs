//! The votes of one round: of which nodes, how many decide, and how long they may take.

use std::sync::Arc;
use std::time::Duration;

use super::KeyAnswer;
use crate::error::{BuildError, NodeReport, NodeReports, NodeVote};
use crate::node::NodeError;

/// A set of nodes by their index in the configured order, as bits of one word, so that it can be
/// shared as an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(pub(crate) u64);

impl NodeSet {
    /// The most nodes a lock can have.
    pub(crate) const MAX_NODES: usize = 64;

    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(node: usize) -> Self {
        Self(1 << node)
    }

    pub(crate) fn all(nodes: usize) -> Self {
        (0..nodes).fold(Self::EMPTY, Self::with)
    }

    pub(crate) fn with(self, node: usize) -> Self {
        Self(self.0 | Self::of(node).0)
    }

    pub(crate) fn without(self, node: usize) -> Self {
        Self(self.0 & !Self::of(node).0)
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & Self::of(node).0 != 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        // From bit to bit: this is done several times for each lock, and there are few nodes.
        let mut rest = self;
        std::iter::from_fn(move || {
            let node = (!rest.is_empty()).then(|| rest.0.trailing_zeros() as usize)?;
            rest = rest.without(node);
            Some(node)
        })
    }
}

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

/// What a round does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<V> {
    /// Ask these nodes.
    Ask(NodeSet),
    /// Wait for a vote, at most until then.
    Wait(Duration),
    /// The outcome is certain.
    Decided(V),
}

/// One node's vote in a round.
#[derive(Clone, Debug)]
enum Ballot<A> {
    /// Not asked, at least not yet.
    Unasked,
    /// Asked, no answer yet; it counts as failed from `until` on.
    Open { until: Duration, within: Duration },
    /// The node answered.
    Answered(A),
    /// No answer. Unless nothing was sent, the command may have taken effect.
    Failed(NodeError),
}

/// The votes of all nodes in one round.
#[derive(Clone, Debug)]
pub(crate) struct Ballots<A> {
    of: Vec<Ballot<A>>,
    // Which of these are what: so nobody has to count again after each vote.
    unasked: NodeSet,
    open: NodeSet,
    answered: NodeSet,
}

impl<A> Ballots<A> {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            of: (0..nodes).map(|_| Ballot::Unasked).collect(),
            unasked: NodeSet::all(nodes),
            open: NodeSet::EMPTY,
            answered: NodeSet::EMPTY,
        }
    }

    /// The node was asked at `now` and has until `now + within` to answer.
    pub(crate) fn ask(&mut self, node: usize, now: Duration, within: Duration) {
        let until = now.saturating_add(within);
        self.of[node] = Ballot::Open { until, within };
        self.unasked = self.unasked.without(node);
        self.open = self.open.with(node);
        self.answered = self.answered.without(node);
    }

    /// The node answered or failed. An answer counts even if it was given up before.
    pub(crate) fn record(&mut self, node: usize, result: Result<A, NodeError>) {
        self.unasked = self.unasked.without(node);
        self.open = self.open.without(node);
        (self.of[node], self.answered) = match result {
            Ok(answer) => (Ballot::Answered(answer), self.answered.with(node)),
            Err(error) => (Ballot::Failed(error), self.answered.without(node)),
        };
    }

    /// Gives up the nodes whose time is over, and says which.
    pub(crate) fn expire(&mut self, now: Duration) -> NodeSet {
        let mut expired = NodeSet::EMPTY;
        for node in self.open.iter() {
            match self.of[node] {
                Ballot::Open { until, within } if until <= now => {
                    self.record(node, Err(NodeError::no_answer(within)));
                    expired = expired.with(node);
                }
                _ => {}
            }
        }
        expired
    }

    /// The next moment at which [`expire`](Self::expire) has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let deadlines = self.of.iter().filter_map(|ballot| match ballot {
            Ballot::Open { until, .. } => Some(*until),
            _ => None,
        });
        deadlines.min()
    }

    /// What follows in a round that asks all nodes at once: what is left to be done until there is a
    /// verdict.
    pub(crate) fn step<V>(&self, verdict: impl FnOnce() -> Option<V>) -> Step<V> {
        if !self.unasked.is_empty() {
            return Step::Ask(self.unasked);
        }
        match verdict() {
            Some(verdict) => Step::Decided(verdict),
            // Without a verdict a vote is open, and has a deadline.
            None => Step::Wait(self.next_deadline().unwrap_or_default()),
        }
    }

    pub(crate) fn answer(&self, node: usize) -> Option<&A> {
        match &self.of[node] {
            Ballot::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = (usize, &A)> {
        self.answered
            .iter()
            .filter_map(|node| Some((node, self.answer(node)?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// What the node said, in the end.
    pub(crate) fn result(&self, node: usize) -> Result<A, NodeError>
    where
        A: Clone,
    {
        match &self.of[node] {
            Ballot::Answered(answer) => Ok(answer.clone()),
            Ballot::Failed(error) => Err(error.clone()),
            Ballot::Unasked | Ballot::Open { .. } => Err(NodeError::not_sent("not asked")),
        }
    }

    pub(crate) fn errors(&self) -> impl Iterator<Item = &NodeError> {
        self.of.iter().filter_map(|ballot| match ballot {
            Ballot::Failed(error) => Some(error),
            _ => None,
        })
    }

    pub(crate) fn is_unasked(&self, node: usize) -> bool {
        self.unasked.contains(node)
    }

    pub(crate) fn has_failed(&self, node: usize) -> bool {
        matches!(self.of[node], Ballot::Failed(_))
    }

    pub(crate) fn unasked(&self) -> NodeSet {
        self.unasked
    }

    /// How many are out.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// How many have answered.
    pub(crate) fn answered(&self) -> usize {
        self.answered.len()
    }

    /// What each node said, for an error: its label, and how late its answers come.
    pub(crate) fn reports(
        &self,
        nodes: impl Iterator<Item = (Arc<str>, Option<Duration>)>,
        granted: impl Fn(&A) -> bool,
    ) -> NodeReports {
        let report = |((label, late), ballot): ((Arc<str>, Option<Duration>), &Ballot<A>)| {
            let vote = match ballot {
                Ballot::Answered(answer) if granted(answer) => NodeVote::Granted,
                Ballot::Answered(_) => NodeVote::Refused,
                Ballot::Failed(error) => NodeVote::Failed(error.clone()),
                Ballot::Unasked | Ballot::Open { .. } => NodeVote::Open,
            };
            let is_late = matches!(&vote, NodeVote::Failed(error) if error.is_no_answer());
            NodeReport {
                late: late.filter(|_| is_late),
                ..NodeReport::new(label, vote)
            }
        };
        NodeReports::from(nodes.zip(&self.of).map(report).collect::<Vec<_>>())
    }
}

impl Ballots<KeyAnswer> {
    /// How many nodes have answered that the key is ours, or was.
    pub(crate) fn ours(&self) -> usize {
        let ours = |(_, answer): &(usize, &KeyAnswer)| **answer == KeyAnswer::Ours;
        self.answers().filter(ours).count()
    }
}

#[cfg(test)]
mod tests;
