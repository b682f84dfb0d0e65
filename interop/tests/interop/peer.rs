//! The other side of a lock, whatever library it uses.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// What the other side is asked to do. It holds one lock at a time. Displayed, it is a line for a
/// program: milliseconds, then names without spaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// Acquire the lock if it is free.
    Try { ttl: Duration, keys: &'a [&'a str] },
    /// Wait until the lock is free, and acquire it.
    Acquire { ttl: Duration, keys: &'a [&'a str] },
    /// Let the lock live for `ttl` from now on.
    Extend { ttl: Duration },
    /// Release the lock.
    Release,
    /// Add to a counter that nothing but the lock protects, for at least that many rounds, and until
    /// the key `KEY:stop` exists: `KEY:counter` by GET and SET, `KEY:theirs` by INCR.
    Count {
        ttl: Duration,
        rounds: u64,
        key: &'a str,
    },
}

impl fmt::Display for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Try { ttl, keys } => write!(f, "try {} {}", ttl.as_millis(), keys.join(" ")),
            Self::Acquire { ttl, keys } => {
                write!(f, "acquire {} {}", ttl.as_millis(), keys.join(" "))
            }
            Self::Extend { ttl } => write!(f, "extend {}", ttl.as_millis()),
            Self::Release => f.write_str("release"),
            Self::Count { ttl, rounds, key } => {
                write!(f, "count {} {rounds} {key}", ttl.as_millis())
            }
        }
    }
}

/// What it says came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was done.
    Yes,
    /// The lock is somebody else's, or gone.
    No,
    /// The library does not tell.
    Nothing,
    /// So many rounds.
    Counted(u64),
}

impl Told {
    pub(crate) fn yes_if(granted: bool) -> Self {
        if granted { Self::Yes } else { Self::No }
    }
}

/// One user of another library, connected to the servers of a test.
#[async_trait]
pub(crate) trait Peer: Send {
    /// Does it. Panics if it can neither be done nor refused.
    async fn ask(&mut self, ask: Ask<'_>) -> Told;
}
