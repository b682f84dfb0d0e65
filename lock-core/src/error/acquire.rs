//! Why a lock was not acquired.

use std::fmt;
use std::time::Duration;

use super::{InvalidInput, NodeReports};
use crate::display::Ms;

/// Why a lock was not acquired. Whatever the failed attempts set is released.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The request cannot work. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Enough nodes answered, and somebody else holds the lock or competes for it.
    #[error(transparent)]
    Contended(Contended),
    /// Too few nodes answered to decide who holds the lock: an outage, no contention.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// A quorum granted the lock, but too late to rely on it, so it was released.
    #[error(transparent)]
    TooSlow(TooSlow),
    /// The lock was shut down, see [`Redlock::shutdown`](crate::Redlock::shutdown).
    #[error("the lock was shut down, nothing can be acquired any more")]
    ShutDown,
}

/// Somebody else holds the lock or competes for it; part of [`AcquireError::Contended`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Contended {
    /// How long the call waited.
    pub waited: Duration,
    /// How many attempts it made.
    pub attempts: u32,
    /// The token of the one holder that a quorum of nodes named, if one did.
    pub holder: Option<Vec<u8>>,
    /// How long the key that refused us lives at most, by the node that knows it longest, unless
    /// it is extended or released; `None` if no node told, or the key lives for ever.
    pub holder_ttl: Option<Duration>,
    /// What each node said in the last whole round.
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
    /// What each node said in the last whole round.
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
    /// What of the ttl can be relied on, counted from before the first send.
    pub validity: Duration,
}

impl fmt::Display for Contended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held by somebody else")?;
        if let Some(ttl) = self.holder_ttl {
            write!(f, " for up to {}", Ms(ttl))?;
        }
        write!(
            f,
            " (waited {}, {})",
            Ms(round(self.waited)),
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
            Ms(round(self.waited)),
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
            Ms(round(self.took)),
            Ms(self.validity),
            Ms(round(self.waited)),
            Attempts(self.attempts),
        )
    }
}

impl std::error::Error for Contended {}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.nodes
            .first_error()
            .map(|error| error as &(dyn std::error::Error + 'static))
    }
}

impl std::error::Error for TooSlow {}

struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} attempt{plural}", self.0)
    }
}

/// Nobody reads nanoseconds of a wait.
fn round(duration: Duration) -> Duration {
    Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) / 100 * 100)
}

fn nodes(f: &mut fmt::Formatter<'_>, nodes: &NodeReports) -> fmt::Result {
    if nodes.is_empty() {
        return Ok(());
    }
    write!(f, "; {nodes}")
}
