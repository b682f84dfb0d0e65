//! Why a lock was not acquired.

use std::fmt;
use std::time::Duration;

use super::{InvalidInput, NodeReports};
use crate::display::{Hidden, Line, Ms, tenths};

/// Why a lock was not acquired. Whatever the failed attempts have set is released.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The request cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Enough nodes answered, and somebody else holds the lock or competes for it.
    #[error(transparent)]
    Contended(Contended),
    /// Too few nodes answered to decide who holds the lock: an outage, not contention.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// A quorum granted the lock, but too late to rely on it, so it was released.
    #[error(transparent)]
    TooSlow(TooSlow),
    /// The lock was shut down, see [`Redlock::shutdown`](crate::Redlock::shutdown).
    #[error("the lock was shut down, it can no longer be acquired")]
    ShutDown,
}

/// Somebody else holds the lock or competes for it; part of [`AcquireError::Contended`].
///
/// Its `Debug` does not show the holder's token.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Contended {
    /// How long the call waited.
    pub waited: Duration,
    /// How many attempts it made.
    pub attempts: u32,
    /// The whole value of the holder's key, if a quorum of nodes named the same one. It is a secret: with it,
    /// anybody who reaches the nodes can release the lock. [`owner`](Self::owner) is not.
    pub holder: Option<Vec<u8>>,
    /// How long the holder's key lives at most, unless it is extended or released, by the node where
    /// it lives longest; `None` if no node reported it, or the key has no expiry.
    pub holder_ttl: Option<Duration>,
    /// Who holds the lock, in the holder's own words ([`RedlockBuilder::owner`](crate::RedlockBuilder::owner)),
    /// by that node; `None` if it left none there. Nobody has checked them.
    pub owner: Option<String>,
    /// The answers of all nodes in the last whole round.
    pub nodes: NodeReports,
}

/// Too few nodes answered; part of [`AcquireError::Unavailable`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Unavailable {
    /// How long the call waited.
    pub waited: Duration,
    /// How many attempts it made.
    pub attempts: u32,
    /// How many nodes must answer.
    pub quorum: usize,
    /// The answers of all nodes in the last whole round.
    pub nodes: NodeReports,
}

/// The lock was won too late; part of [`AcquireError::TooSlow`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TooSlow {
    /// How long the call waited.
    pub waited: Duration,
    /// How many attempts it made.
    pub attempts: u32,
    /// How long the last whole round took.
    pub took: Duration,
    /// For how much of the ttl the lock could be relied on, counted from before the first send.
    pub validity: Duration,
}

impl fmt::Debug for Contended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contended")
            .field("waited", &self.waited)
            .field("attempts", &self.attempts)
            .field("holder", &Hidden(&self.holder))
            .field("owner", &self.owner)
            .field("holder_ttl", &self.holder_ttl)
            .field("nodes", &self.nodes)
            .finish()
    }
}

impl fmt::Display for Contended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Some(owner) => write!(f, "held by {}", Line(owner))?,
            None => f.write_str("held by somebody else")?,
        }
        if let Some(ttl) = self.holder_ttl {
            write!(f, " for up to {}", Ms(ttl))?;
        }
        write!(
            f,
            " (waited {}, {})",
            Ms(tenths(self.waited)),
            Attempts(self.attempts)
        )?;
        nodes(f, &self.nodes)
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too few nodes answered, {} of {} are needed (waited {}, {})",
            self.quorum,
            self.nodes.len(),
            Ms(tenths(self.waited)),
            Attempts(self.attempts),
        )?;
        nodes(f, &self.nodes)
    }
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "won too late: the round took {} of a validity of {} (waited {}, {})",
            Ms(tenths(self.took)),
            Ms(self.validity),
            Ms(tenths(self.waited)),
            Attempts(self.attempts),
        )
    }
}

impl std::error::Error for Contended {}

/// Its causes are those of the nodes, which its `Display` shows.
impl std::error::Error for Unavailable {}

impl std::error::Error for TooSlow {}

struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} attempt{plural}", self.0)
    }
}

fn nodes(f: &mut fmt::Formatter<'_>, nodes: &NodeReports) -> fmt::Result {
    if nodes.is_empty() {
        return Ok(());
    }
    write!(f, "; {nodes}")
}
