//! The numbered rules that checks name.

use std::fmt;

/// A numbered rule of [`RedisNode`](lock_core::RedisNode) (N) or
/// [`DistributedLock`](lock_core::DistributedLock) (L), as their docs state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the text of each is below, and in the docs of the trait"
)]
pub enum Rule {
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    N9,
    N10,
    N11,
    N12,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
    L9,
    L10,
    L11,
    L12,
    L13,
    L14,
    L15,
    L16,
    L17,
}

impl Rule {
    /// The rule in one line.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::N1 => "a command takes effect atomically, or not at all",
            Self::N2 => "`Ok` carries what the server answered to this very command",
            Self::N3 => {
                "`Err` means that it may have taken effect, and `NotSent` that it never will"
            }
            Self::N4 => "keys expire on the server's clock",
            Self::N5 => "a command is sent at most once",
            Self::N6 => "a dropped call leaves the connection usable and the replies paired",
            Self::N7 => "while disconnected, calls fail fast, and the node comes back by itself",
            Self::N8 => "calls are independent and may run concurrently",
            Self::N9 => "keys, tokens and values are bytes, never text",
            Self::N10 => "an error keeps the server's code and the transport's cause",
            Self::N11 => "a secret never shows in `Debug`, `Display` or a log",
            Self::N12 => "commands for one key leave on one connection in the order of the calls",
            Self::L1 => "at most one guard of a resource is valid at a time",
            Self::L2 => "names are bytes, and independent of each other",
            Self::L3 => "a lock is not reentrant",
            Self::L4 => "`try_acquire` does not wait for a holder, and `None` means one",
            Self::L5 => {
                "`acquire` waits for a holder as long as `max_wait` allows, and then says so"
            }
            Self::L6 => {
                "bad input is refused before anything is sent, with the value and the limit"
            }
            Self::L7 => "a dropped call leaves nothing behind and disturbs nobody",
            Self::L8 => "the validity ends with the ttl, and so does the lock",
            Self::L9 => "`extend` prolongs a held lock, never shortens it and never revives one",
            Self::L10 => {
                "`release` frees the lock at once, is idempotent and never touches a successor"
            }
            Self::L11 => "dropping a guard releases, on any thread and without a runtime",
            Self::L12 => "each acquisition has a token of its own",
            Self::L13 => "with `hold_at_least` the lock stays taken for that long",
            Self::L14 => {
                "a minority of failed nodes does no harm; without a majority it is an outage \
                 that names each node's vote"
            }
            Self::L15 => {
                "`lost()` ends when the lock is lost, with its validity at the latest, and never for \
                 a released lock"
            }
            Self::L16 => "several resources are locked all or none, and their names never joined",
            Self::L17 => "with `auto_extend` a lock is held as long as its guard, and no longer",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The names are the ids.
        write!(f, "{self:?}")
    }
}
