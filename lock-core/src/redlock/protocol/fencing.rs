//! How the numbers that nodes grant become one fencing token.
//!
//! Each node counts for itself, so the largest of some numbers is no token yet: the next acquisition may be
//! granted by other nodes, whose counters are behind. The token is the largest number that was granted when
//! the quorum was reached, and it counts where a node has granted exactly that, or has confirmed that it raised
//! its counter to it WHILE the lock held the attempt's key. A quorum of those, and every later quorum has a
//! node that counts on from there.

use super::{NodeSet, Quorum};
use crate::fencing::FencingToken;

/// The numbers of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Fencing {
    quorum: Quorum,
    /// What nodes have granted before the token was fixed.
    granted: Vec<(usize, FencingToken)>,
    /// Once a quorum has granted. It stays.
    token: Option<FencingToken>,
}

/// What a grant comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It is a vote, as far as is known yet.
    Counts,
    /// It is the grant that makes a quorum, which fixes the token: these nodes, perhaps this one, have to
    /// confirm it before they are votes.
    Fixes { to_confirm: NodeSet },
    /// The node has to confirm the token before it is a vote.
    Below,
    /// It is no vote, since the node counts on from a larger number.
    Above,
}

impl Fencing {
    pub(crate) fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            granted: Vec::new(),
            token: None,
        }
    }

    /// The token, once it is fixed.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.token
    }

    /// A node has granted the lock with this number. Each does once at most.
    pub(crate) fn grant(&mut self, node: usize, number: FencingToken) -> Grant {
        match self.token {
            Some(token) if number == token => return Grant::Counts,
            Some(token) if number < token => return Grant::Below,
            Some(_) => return Grant::Above,
            None => self.granted.push((node, number)),
        }
        if !self.quorum.reached(self.granted.len()) {
            return Grant::Counts;
        }
        let token = self.granted.iter().map(|(_, number)| *number).max();
        self.token = token;
        let below = self.granted.iter();
        let below = below.filter(|(_, number)| Some(*number) < token && !mutant!(NotConfirmed));
        let to_confirm = below.fold(NodeSet::EMPTY, |set, (node, _)| set.with(*node));
        Grant::Fixes { to_confirm }
    }

    /// What the node has granted, if it did before the token was fixed.
    pub(crate) fn granted_by(&self, node: usize) -> Option<FencingToken> {
        let mut granted = self.granted.iter();
        granted
            .find(|(by, _)| *by == node)
            .map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests;
