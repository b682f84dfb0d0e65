//! The votes of one round, and how long they may take.

use std::sync::Arc;
use std::time::Duration;

use super::{KeyAnswer, NodeSet};
use crate::error::{NodeReport, NodeReports, NodeVote};
use crate::node::NodeError;

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

    /// What each node said, for an error.
    pub(crate) fn reports(
        &self,
        labels: impl Iterator<Item = Arc<str>>,
        granted: impl Fn(&A) -> bool,
    ) -> NodeReports {
        let report = |(label, ballot): (Arc<str>, &Ballot<A>)| {
            let vote = match ballot {
                Ballot::Answered(answer) if granted(answer) => NodeVote::Granted,
                Ballot::Answered(_) => NodeVote::Refused,
                Ballot::Failed(error) => NodeVote::Failed(error.clone()),
                Ballot::Unasked | Ballot::Open { .. } => NodeVote::Open,
            };
            NodeReport::new(label, vote)
        };
        NodeReports::from(labels.zip(&self.of).map(report).collect::<Vec<_>>())
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
mod tests {
    use super::*;

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
}
