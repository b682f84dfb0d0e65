//! One attempt to acquire: one command to every node, and the votes that come back.

use std::time::Duration;

use super::{AcquireAnswer, Ballots, Fencing, Grant, NodeSet, Quorum, Standing, Step, Tally};
use crate::fencing::FencingToken;
use crate::inspection::LockKey;
use crate::node::{NodeError, Token};

/// One round of votes.
#[derive(Clone, Debug)]
pub(crate) struct AcquireRound {
    quorum: Quorum,
    ballots: Ballots<AcquireAnswer>,
    /// The nodes whose grant is a vote.
    granted: NodeSet,
    /// The node that is asked alone first; the others only when it did not refuse.
    first: Option<usize>,
    /// The caller's deadline, at which an undecided round ends.
    cut_at: Option<Duration>,
    was_cut: bool,
    /// Of a lock that is to have a fencing token.
    fencing: Option<Fencing>,
    /// Until when a round that is an outage already waits for the causes of the other nodes.
    causes_until: Option<Duration>,
}

/// The share of the time that a node has within which the cause of an outage is waited for, so
/// that its error can name all nodes and not only those that failed first.
const CAUSES_SHARE: u32 = 10;

/// What a round came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A quorum granted, in time.
    Won,
    /// A quorum granted when the validity was over.
    TooLate,
    /// Somebody else holds the lock, or rivals share the votes.
    Contended {
        /// The one holder that a quorum of refusals named.
        holder: Option<LockKey>,
        /// Whether it looks as if nobody has a quorum.
        split: bool,
    },
    /// The node that was asked first refused, so nobody else was asked.
    Vetoed,
    /// Too few nodes answered.
    Unavailable {
        /// Whether refusals that no retry changes, such as missing permissions, alone put the
        /// quorum out of reach.
        denied: bool,
    },
}

impl AcquireRound {
    pub(crate) fn new(quorum: Quorum, first: Option<usize>, cut_at: Option<Duration>) -> Self {
        Self {
            quorum,
            ballots: Ballots::new(quorum.nodes()),
            granted: NodeSet::EMPTY,
            first,
            cut_at,
            was_cut: false,
            fencing: None,
            causes_until: None,
        }
    }

    /// The round of a lock that is to have a fencing token.
    pub(crate) fn with_fencing(self) -> Self {
        let fencing = Some(Fencing::new(self.quorum));
        Self { fencing, ..self }
    }

    /// The fencing token, once it is fixed.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing.as_ref().and_then(Fencing::token)
    }

    /// The node was asked at `now` and may take `within`.
    pub(crate) fn asked(&mut self, node: usize, now: Duration, within: Duration) {
        let causes_until = now.saturating_add(within / CAUSES_SHARE);
        self.causes_until = self.causes_until.max(Some(causes_until));
        self.ballots.ask(node, now, within);
    }

    /// A vote, in whatever order they come.
    ///
    /// Returns the nodes that have to confirm the fencing token before they are votes, each with what it has
    /// granted. They are to be asked now: `asks` says of a node when that is and how long it may take.
    #[must_use]
    pub(crate) fn handle_vote(
        &mut self,
        node: usize,
        vote: Result<AcquireAnswer, NodeError>,
        asks: impl Fn(usize) -> (Duration, Duration),
    ) -> Vec<(usize, FencingToken)> {
        let (Some(fencing), Ok(AcquireAnswer::Granted(Some(number)))) = (&mut self.fencing, &vote)
        else {
            self.record(node, vote);
            return Vec::new();
        };
        let number = *number;
        let to_confirm = match fencing.grant(node, number) {
            Grant::Counts => NodeSet::EMPTY,
            Grant::Fixes { to_confirm } => to_confirm,
            Grant::Below => NodeSet::of(node),
            Grant::Above => {
                let why = "not counted: its fencing counter is above the token";
                self.record(node, Err(NodeError::connection(why)));
                return Vec::new();
            }
        };
        let granted_by = |by| (by, fencing.granted_by(by).unwrap_or(number));
        let confirmations = to_confirm.iter().map(granted_by).collect();
        self.record(node, vote);
        for node in to_confirm.iter() {
            let (now, within) = asks(node);
            self.granted = self.granted.without(node);
            self.ballots.ask(node, now, within);
        }
        confirmations
    }

    /// A node answered that its counter has the fencing token now, or failed to.
    pub(crate) fn handle_confirmation(&mut self, node: usize, answer: Result<(), NodeError>) {
        let token = self.fencing_token();
        self.record(node, answer.map(|()| AcquireAnswer::Granted(token)));
    }

    /// The node is not asked.
    pub(crate) fn not_asked(&mut self, node: usize, why: NodeError) {
        self.record(node, Err(why));
    }

    fn record(&mut self, node: usize, vote: Result<AcquireAnswer, NodeError>) {
        self.granted = match vote {
            Ok(AcquireAnswer::Granted(_)) => self.granted.with(node),
            _ => self.granted.without(node),
        };
        self.ballots.record(node, vote);
    }

    /// Time has passed: gives up nodes that took too long, and says which.
    pub(crate) fn handle_time(&mut self, now: Duration) -> NodeSet {
        let late = self.ballots.expire(now);
        let is_cut = self.cut_at.is_some_and(|cut_at| cut_at <= now);
        self.causes_until = self.causes_until.filter(|until| *until > now && !is_cut);
        if is_cut && self.standing() == Standing::Open {
            self.was_cut = true;
        }
        late
    }

    pub(crate) fn step(&self) -> Step<()> {
        if self.was_cut || self.is_vetoed() {
            return Step::Decided(());
        }
        let deadline = match (self.standing(), self.causes_until) {
            (Standing::Open, _) => {
                let to_ask = self.to_ask();
                if !to_ask.is_empty() {
                    return Step::Ask(to_ask);
                }
                self.ballots.next_deadline()
            }
            (Standing::Unavailable, Some(until)) if self.ballots.open() > 0 => Some(until),
            _ => return Step::Decided(()),
        };
        match [deadline, self.cut_at].into_iter().flatten().min() {
            Some(until) => Step::Wait(until),
            // Nobody is out and nobody can be asked: every vote is in, so this is not reached.
            None => Step::Decided(()),
        }
    }

    fn to_ask(&self) -> NodeSet {
        match self.first {
            Some(first) if self.ballots.is_unasked(first) => NodeSet::of(first),
            // The first one is asked and has neither granted nor failed.
            Some(first) if !self.is_granted(first) && !self.ballots.has_failed(first) => {
                NodeSet::EMPTY
            }
            _ => self.ballots.unasked(),
        }
    }

    /// What the round came to, once it is [`Step::Decided`]. The lock can be relied on
    /// until `valid_until`, if it is won before. `own` are the tokens of the caller's attempts
    /// before this one: where one of them still stands, nobody else holds the lock.
    pub(crate) fn verdict(&self, now: Duration, valid_until: Duration, own: &[Token]) -> Verdict {
        if self.is_vetoed() {
            return Verdict::Vetoed;
        }
        match self.standing() {
            Standing::Won if now < valid_until => Verdict::Won,
            Standing::Won => Verdict::TooLate,
            // Its keys may have expired before they were confirmed.
            _ if self.fencing_token().is_some() && now >= valid_until => Verdict::TooLate,
            Standing::Contended => self.contended(own),
            Standing::Unavailable | Standing::Open => {
                let denied = self.ballots.errors().filter(|e| e.is_final()).count();
                Verdict::Unavailable {
                    denied: self.quorum.blocked(denied),
                }
            }
        }
    }

    /// The nodes that have refused.
    pub(crate) fn refused(&self) -> NodeSet {
        let is_refusal = |answer: &AcquireAnswer| matches!(answer, AcquireAnswer::Refused(_));
        let refused = self
            .ballots
            .answers()
            .filter(|(_, answer)| is_refusal(answer));
        refused.fold(NodeSet::EMPTY, |set, (node, _)| set.with(node))
    }

    /// Whether all nodes had their chance: only then does the verdict stand for all of them.
    pub(crate) fn is_whole(&self) -> bool {
        !self.was_cut && !self.is_vetoed()
    }

    pub(crate) fn ballots(&self) -> &Ballots<AcquireAnswer> {
        &self.ballots
    }

    /// The holder according to the node where its key lives longest.
    pub(crate) fn longest_holder(&self) -> Option<&LockKey> {
        self.holders().max_by_key(|holder| holder.ttl)
    }

    fn contended(&self, own: &[Token]) -> Verdict {
        let named = |token: &[u8]| {
            let same = |holder: &&LockKey| holder.token.as_deref() == Some(token);
            self.holders().filter(same).count()
        };
        let by_quorum = |holder: &&LockKey| {
            let token = holder.token.as_deref();
            let is_enough = |named| self.quorum.reached(named) || mutant!(RivalNamedByOne);
            token.is_some_and(|token| is_enough(named(token)))
        };
        let is_own = |holder: &LockKey| {
            let token = holder.token.as_deref();
            own.iter().any(|own| Some(own.as_bytes()) == token)
        };
        match self.holders().find(by_quorum) {
            Some(holder) if !is_own(holder) => Verdict::Contended {
                holder: Some(holder.clone()),
                split: false,
            },
            found => Verdict::Contended {
                holder: None,
                split: found.is_some() || !self.granted.is_empty() || self.names_differ(),
            },
        }
    }

    fn names_differ(&self) -> bool {
        let mut tokens = self.holders().map(|holder| &holder.token);
        let first = tokens.next();
        tokens.any(|token| Some(token) != first)
    }

    fn holders(&self) -> impl Iterator<Item = &LockKey> {
        self.ballots
            .answers()
            .filter_map(|(_, answer)| match answer {
                AcquireAnswer::Refused(holder) => holder.as_ref(),
                AcquireAnswer::Granted(_) => None,
            })
    }

    fn is_granted(&self, node: usize) -> bool {
        self.granted.contains(node)
    }

    fn is_vetoed(&self) -> bool {
        let refused = |node| matches!(self.ballots.answer(node), Some(AcquireAnswer::Refused(_)));
        // Once the others were asked, a late refusal of the first is a vote like any other.
        self.quorum.nodes() > 1
            && self.first.is_some_and(|first| {
                refused(first)
                    && self.ballots.unasked() == NodeSet::all(self.quorum.nodes()).without(first)
            })
    }

    fn standing(&self) -> Standing {
        self.quorum.standing(self.tally())
    }

    fn tally(&self) -> Tally {
        let granted = self.granted.len();
        Tally {
            granted,
            refused: self.ballots.answered() - granted,
            open: self.ballots.open() + self.ballots.unasked().len(),
        }
    }
}

#[cfg(test)]
mod tests;
