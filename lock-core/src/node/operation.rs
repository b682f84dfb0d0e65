//! The operations that a node carries out.

use std::sync::Arc;
use std::time::Duration;

use super::Token;
use crate::scripts::{self, Script};
use crate::ttl::Ttl;

/// What a [`Command`](super::Command) asks for, and how a server answers it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// `SET key token NX PX ttl`. Answers [`Reply::Bytes`](super::Reply::Bytes)`(OK)` if the key
    /// was free, [`Reply::Nil`](super::Reply::Nil) if it was not, of whatever type it is.
    Acquire {
        /// The lock's key.
        key: Arc<[u8]>,
        /// The value to set.
        token: Token,
        /// The key's lifetime.
        ttl: Ttl,
    },
    /// Acquires by a script, which also reports the holder.
    ///
    /// Answers `Int(1)` if the key was free, or holds this very token (nothing changes then).
    /// Otherwise it answers an array of the holder's token (cut to 128 bytes; `Nil` if the key is not
    /// a string) and the key's PTTL in ms (-1 if it has no expiry).
    AcquireOrReport {
        /// The lock's key.
        key: Arc<[u8]>,
        /// The value to set.
        token: Token,
        /// The key's lifetime.
        ttl: Ttl,
    },
    /// Extends the keys that still hold their token; never creates and never shortens one.
    ///
    /// Answers an array with one integer for each entry: 1 extended, 0 no such key, -1 the key
    /// holds something else.
    Extend {
        /// What to extend; on a cluster, keys of one slot.
        entries: Arc<[ExtendEntry]>,
    },
    /// Deletes the key if it still holds the token.
    ///
    /// With `keep` above zero, the key is not deleted; its lifetime is cut to `keep` if it is longer.
    /// Answers `Int(1)` if the key held the token, `Int(0)` if there is no key, `Int(-1)`
    /// if it holds something else.
    Release {
        /// The lock's key.
        key: Arc<[u8]>,
        /// The value to compare with.
        token: Token,
        /// For how much longer the key is to live; zero deletes it. A fraction of a millisecond
        /// counts as a whole one.
        keep: Duration,
    },
    /// Sets all keys if each of them is free or holds this very token, and none of them otherwise.
    ///
    /// Answers as [`AcquireOrReport`](Self::AcquireOrReport) does, and reports the holder of the first
    /// key that is not free.
    AcquireAll {
        /// The locks' keys, at least one and no two the same; on a cluster, of one slot.
        keys: Arc<[Arc<[u8]>]>,
        /// The value to set.
        token: Token,
        /// The keys' lifetime.
        ttl: Ttl,
    },
    /// Does for each key what a [`Release`](Self::Release) does for one. Answers an array with the
    /// integer of such a release for each key.
    ReleaseAll {
        /// The locks' keys; on a cluster, of one slot.
        keys: Arc<[Arc<[u8]>]>,
        /// The value to compare with.
        token: Token,
        /// As for a `Release`.
        keep: Duration,
    },
    /// Reports the holder, and changes nothing.
    ///
    /// Answers `Int(0)` if there is no key, otherwise an array like that of an
    /// [`AcquireOrReport`](Self::AcquireOrReport) that was refused.
    Inspect {
        /// The lock's key.
        key: Arc<[u8]>,
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
            Self::Acquire { .. } | Self::AcquireOrReport { .. } | Self::AcquireAll { .. } => {
                "acquire"
            }
            Self::Extend { .. } => "extend",
            Self::Release { .. } | Self::ReleaseAll { .. } => "release",
            Self::Inspect { .. } => "inspect",
            Self::Remove { .. } => "remove",
        }
    }

    /// Returns the key that decides about the connection (rule N12): the first one, if there are
    /// several.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Acquire { key, .. }
            | Self::AcquireOrReport { key, .. }
            | Self::Release { key, .. }
            | Self::Inspect { key }
            | Self::Remove { key } => key,
            Self::AcquireAll { keys, .. } | Self::ReleaseAll { keys, .. } => {
                keys.first().map_or(&[], |key| key)
            }
            Self::Extend { entries } => entries.first().map_or(&[], |entry| &entry.key),
        }
    }

    /// Returns the number of keys that it is about.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::AcquireAll { keys, .. } | Self::ReleaseAll { keys, .. } => keys.len(),
            Self::Extend { entries } => entries.len(),
            _ => 1,
        }
    }

    /// Returns the release that undoes this operation at a node where it may have taken effect, or
    /// `None` for an operation that leaves nothing behind.
    #[must_use]
    pub fn undo(&self) -> Option<Self> {
        match self {
            Self::Acquire { key, token, .. } | Self::AcquireOrReport { key, token, .. } => {
                Some(Self::Release {
                    key: Arc::clone(key),
                    token: *token,
                    keep: Duration::ZERO,
                })
            }
            Self::AcquireAll { keys, token, .. } => Some(Self::ReleaseAll {
                keys: Arc::clone(keys),
                token: *token,
                keep: Duration::ZERO,
            }),
            Self::Extend { .. }
            | Self::Release { .. }
            | Self::ReleaseAll { .. }
            | Self::Inspect { .. }
            | Self::Remove { .. } => None,
        }
    }

    pub(super) fn script(&self) -> Option<&'static Script> {
        match self {
            Self::Acquire { .. } => None,
            Self::AcquireOrReport { .. } => Some(&scripts::ACQUIRE),
            Self::Extend { .. } => Some(&scripts::EXTEND),
            Self::Release { .. } => Some(&scripts::RELEASE),
            Self::AcquireAll { .. } => Some(&scripts::ACQUIRE_ALL),
            Self::ReleaseAll { .. } => Some(&scripts::RELEASE_ALL),
            Self::Inspect { .. } => Some(&scripts::INSPECT),
            Self::Remove { .. } => Some(&scripts::REMOVE),
        }
    }
}
