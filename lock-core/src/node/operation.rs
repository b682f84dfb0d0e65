//! The operations that a node carries out.

use std::sync::Arc;
use std::time::Duration;

use super::{Keys, Token};
use crate::scripts::{self, Script};
use crate::ttl::Ttl;

/// What a [`Command`](super::Command) asks for, and how a server answers it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Sets all keys if each of them is free, and none of them otherwise.
    ///
    /// One key without `report_holder` is a plain `SET key token NX PX ttl`. It answers
    /// [`Reply::Bytes`](super::Reply::Bytes)`(OK)` if the key was free, [`Reply::Nil`](super::Reply::Nil)
    /// if it was not, of whatever type it is.
    ///
    /// Everything else is a script. It takes a key that holds this very token for a free one, and
    /// leaves it as it is. It answers `Int(1)` if all keys were free. Otherwise it answers an array
    /// about the first key that was not: the holder's token (cut to 128 bytes; `Nil` if the key is not
    /// a string) and the key's PTTL in ms (-1 if it has no expiry).
    Acquire {
        /// The lock's keys, at least one.
        keys: Keys,
        /// The value to set.
        token: Token,
        /// The keys' lifetime.
        ttl: Ttl,
        /// Whether a refusal reports the holder. With several keys, it always does.
        report_holder: bool,
    },
    /// Extends the keys that still hold their token; never creates and never shortens one.
    ///
    /// Answers an array with one integer for each entry: 1 extended, 0 no such key, -1 the key
    /// holds something else. Where a node sends the entries to several servers, it is
    /// [`Reply::Nil`](super::Reply::Nil) for those of which nothing is known since theirs did not answer.
    Extend {
        /// What to extend; for a server of a cluster, keys of one slot.
        entries: Arc<[ExtendEntry]>,
    },
    /// Gives each key that holds one of the `old` tokens the new one, and extends it; likewise a key that
    /// has the new one already. It never creates and never shortens one.
    ///
    /// Answers an array with one integer for each key: 1 it holds the new token now, 0 no such key, -1 it
    /// holds something else.
    Exchange {
        /// The lock's keys.
        keys: Keys,
        /// The values to compare with.
        old: Arc<[Token]>,
        /// The value to set.
        new: Token,
        /// The lifetime from now on, unless a key lives longer already.
        ttl: Ttl,
    },
    /// Deletes each key that still holds the token.
    ///
    /// With `keep` above zero, keys are not deleted; the lifetime of each is cut to `keep` if it is
    /// longer. For one key it answers `Int(1)` if the key held the token, `Int(0)` if there is no key,
    /// `Int(-1)` if it holds something else. For several keys it answers an array with one such integer
    /// for each, in their order.
    Release {
        /// The lock's keys.
        keys: Keys,
        /// The value to compare with.
        token: Token,
        /// For how much longer the keys are to live; zero deletes them. A fraction of a millisecond
        /// counts as a whole one.
        keep: Duration,
    },
    /// Reports the holder, and changes nothing.
    ///
    /// Answers `Int(0)` if there is no key, otherwise an array like that of an
    /// [`Acquire`](Self::Acquire) that was refused.
    Inspect {
        /// The lock's key.
        key: Arc<[u8]>,
    },
    /// Lists keys that hold strings, a part of them at a time:
    /// `SCAN cursor MATCH prefix* COUNT 20 TYPE string`. It changes nothing.
    ///
    /// Answers an array of two: where to go on, as the text of a number, which is `0` at the end; and an array
    /// of keys, some of which may come twice.
    Scan {
        /// What the keys begin with, byte for byte.
        prefix: Arc<[u8]>,
        /// Where to go on, 0 at first.
        cursor: u64,
    },
    /// Deletes the key, regardless of its holder, unless it is of another type: that is not a lock.
    ///
    /// Answers `Int(1)` if the key was deleted, `Int(0)` if there is no key, `Int(-1)` if it is of
    /// another type.
    Remove {
        /// The lock's key.
        key: Arc<[u8]>,
    },
}

/// One key that an [`Operation::Extend`] extends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendEntry {
    /// The lock's key.
    pub key: Arc<[u8]>,
    /// The value to compare with.
    pub token: Token,
    /// The lifetime from now on, unless the key lives longer already.
    pub ttl: Ttl,
}

impl Operation {
    /// Returns a name for messages and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Extend { .. } => "extend",
            Self::Exchange { .. } => "exchange",
            Self::Release { .. } => "release",
            Self::Inspect { .. } => "inspect",
            Self::Scan { .. } => "scan",
            Self::Remove { .. } => "remove",
        }
    }

    /// Returns the name of the script that carries it out on a server, or `None` for a plain `SET` or `SCAN`.
    #[must_use]
    pub fn script_name(&self) -> Option<&'static str> {
        self.script().map(|script| script.name)
    }

    /// Returns the key that decides about the connection (rule N12): the first one, if there are
    /// several, and for a scan its prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Acquire { keys, .. }
            | Self::Exchange { keys, .. }
            | Self::Release { keys, .. } => keys.first(),
            Self::Extend { entries } => entries.first().map_or(&[], |entry| &entry.key),
            Self::Inspect { key } | Self::Remove { key } => key,
            Self::Scan { prefix, .. } => prefix,
        }
    }

    /// Returns the number of keys that it is about.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Acquire { keys, .. }
            | Self::Exchange { keys, .. }
            | Self::Release { keys, .. } => keys.as_slice().len(),
            Self::Extend { entries } => entries.len(),
            Self::Inspect { .. } | Self::Remove { .. } => 1,
            Self::Scan { .. } => 0,
        }
    }

    /// Returns the release that undoes this operation at a node where it may have taken effect, or
    /// `None` for an operation that sets no key where there was none.
    #[must_use]
    pub fn undo(&self) -> Option<Self> {
        match self {
            Self::Acquire { keys, token, .. } => Some(Self::Release {
                keys: keys.clone(),
                token: *token,
                keep: Duration::ZERO,
            }),
            _ => None,
        }
    }

    pub(super) fn script(&self) -> Option<&'static Script> {
        Some(match self {
            Self::Acquire { keys, .. } if keys.is_several() => &scripts::ACQUIRE_ALL,
            Self::Acquire { report_holder, .. } if !report_holder => return None,
            Self::Acquire { .. } => &scripts::ACQUIRE,
            Self::Extend { .. } => &scripts::EXTEND,
            Self::Exchange { .. } => &scripts::EXCHANGE,
            Self::Release { keys, .. } if keys.is_several() => &scripts::RELEASE_ALL,
            Self::Release { .. } => &scripts::RELEASE,
            Self::Inspect { .. } => &scripts::INSPECT,
            Self::Scan { .. } => return None,
            Self::Remove { .. } => &scripts::REMOVE,
        })
    }
}
