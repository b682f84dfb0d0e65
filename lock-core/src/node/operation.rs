//! The operations that a node carries out.

use std::sync::Arc;
use std::time::Duration;

use super::{Keys, Token};
use crate::fencing::FencingToken;
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
    ///
    /// With `fence` it is a script of its own, for one key or several. If all keys are free, all counters
    /// get one number with the token behind it, `<number> <token>`: the largest of what each asks for (one
    /// more than it has; the server's `TIME` in microseconds if there is none) and of the least one that
    /// `fence` allows. It answers that number as `Int`. If all keys hold this very token and all counters
    /// were last raised by it, it changes nothing and answers their number; if only a part of that is so,
    /// it answers as if somebody else held the lock. A counter that holds anything else, or has reached
    /// [`FencingToken::MAX`], is an error, and nothing is set.
    ///
    /// With `guard` a script stands before all of that. A server that has no such key, or whose run is not the one
    /// that the key names, notes there that it is in quarantine from now on, and answers with the error `QUARANTINE`
    /// until that is over; nothing else is set then. The key is a string without an expiry:
    /// `<run_id> <end of the quarantine> <longest quarantine>`, times in ms, the end by the server's clock, with `-` for a run
    /// that the server does not tell.
    Acquire {
        /// The lock's keys, at least one.
        keys: Keys,
        /// The value to set.
        token: Token,
        /// The keys' lifetime.
        ttl: Ttl,
        /// Whether a refusal reports the holder. With several keys, `fence` or `guard`, it always does.
        report_holder: bool,
        /// The counters to raise, for a lock with a fencing token.
        fence: Option<Fence>,
        /// What tells that the server may have forgotten locks.
        guard: Option<Guard>,
    },
    /// Sets the key of the restart guard, if there is none: the server had no locks to forget up to now.
    ///
    /// Answers `Int(1)` if it was set, `Int(0)` if there was one.
    Bootstrap {
        /// The guard's key.
        key: Arc<[u8]>,
        /// How long the server is to grant no lock when it may have forgotten some.
        quarantine: Ttl,
    },
    /// Raises the counters of a lock with a fencing token from what this node has granted to the lock's
    /// token, only while each key holds `token` and each counter was last raised by it, to `granted`.
    ///
    /// Answers `Int(1)` if all of that was so and the counters have `raised` now, with `token` behind it and
    /// their lifetime anew; otherwise `Int(0)`, and nothing has changed.
    Confirm {
        /// The lock's keys.
        keys: Keys,
        /// The value to compare with.
        token: Token,
        /// The counters. Only their lifetime is looked at besides.
        fence: Fence,
        /// The number that the node has answered to the acquire.
        granted: FencingToken,
        /// The number to set.
        raised: FencingToken,
    },
    /// Extends the keys that still hold their token; never creates and never shortens one.
    ///
    /// Answers an array with one integer for each entry: 1 extended, 0 no such key, -1 the key
    /// holds something else.
    Extend {
        /// What to extend; on a cluster, keys of one slot.
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
    /// Asks the server for its time and for what it says of itself, for operators. It has no key, and changes
    /// nothing.
    ///
    /// Answers an array: the seconds since the Unix epoch and the microseconds of the running one, as the texts
    /// of numbers; and lines of the form `name:value`, the fields of `INFO` that it has of `redis_version`,
    /// `valkey_version`, `run_id`, `role`, `connected_slaves`, `min_slaves_good_slaves`, `aof_enabled`,
    /// `maxmemory` and `maxmemory_policy`. Where `INFO` is refused, `Nil` stands in place of the lines, and
    /// behind it the server's reason.
    Describe,
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

/// The counters of a lock with a fencing token, one for each of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The keys of the counters, in the order of the lock's keys. On a cluster each shares the slot of its
    /// lock's key, if that can be.
    pub counters: Arc<[Arc<[u8]>]>,
    /// The floor: the token has to be larger.
    pub above: FencingToken,
    /// How long a counter lives from now on.
    pub retention: Ttl,
}

/// What tells that a server may have forgotten locks, see [`RestartGuard`](crate::RestartGuard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The key by which a server knows what it was.
    pub key: Arc<[u8]>,
    /// How long the server is to grant no lock when it may have forgotten some.
    pub quarantine: Ttl,
}

impl Operation {
    /// The same acquire behind a guard, if there is one.
    pub(crate) fn guarded_by(mut self, by: Option<&Guard>) -> Self {
        if let Self::Acquire { guard, .. } = &mut self {
            *guard = by.cloned();
        }
        self
    }

    /// Returns a name for messages and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Bootstrap { .. } => "bootstrap",
            Self::Confirm { .. } => "confirm",
            Self::Extend { .. } => "extend",
            Self::Exchange { .. } => "exchange",
            Self::Release { .. } => "release",
            Self::Inspect { .. } => "inspect",
            Self::Scan { .. } => "scan",
            Self::Remove { .. } => "remove",
            Self::Describe => "describe",
        }
    }

    /// Returns the name of the script that carries it out on a server, or `None` for a plain `SET` or `SCAN`.
    #[must_use]
    pub fn script_name(&self) -> Option<&'static str> {
        self.script().map(|script| script.name)
    }

    /// Returns the key that decides about the connection (rule N12): the first one, if there are
    /// several; for a scan its prefix, and for a description none.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Acquire { keys, .. }
            | Self::Confirm { keys, .. }
            | Self::Exchange { keys, .. }
            | Self::Release { keys, .. } => keys.first(),
            Self::Extend { entries } => entries.first().map_or(&[], |entry| &entry.key),
            Self::Bootstrap { key, .. } | Self::Inspect { key } | Self::Remove { key } => key,
            Self::Scan { prefix, .. } => prefix,
            Self::Describe => &[],
        }
    }

    /// Returns the number of keys that it is about.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Acquire { keys, .. }
            | Self::Confirm { keys, .. }
            | Self::Exchange { keys, .. }
            | Self::Release { keys, .. } => keys.as_slice().len(),
            Self::Extend { entries } => entries.len(),
            Self::Bootstrap { .. } | Self::Inspect { .. } | Self::Remove { .. } => 1,
            Self::Scan { .. } | Self::Describe => 0,
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
            Self::Acquire {
                keys,
                report_holder,
                fence,
                guard,
                ..
            } => match (fence, guard, keys.is_several()) {
                (Some(_), None, _) => &scripts::ACQUIRE_FENCED,
                (Some(_), Some(_), _) => &scripts::ACQUIRE_FENCED_GUARDED,
                (None, Some(_), true) => &scripts::ACQUIRE_ALL_GUARDED,
                (None, Some(_), false) => &scripts::ACQUIRE_GUARDED,
                (None, None, true) => &scripts::ACQUIRE_ALL,
                (None, None, false) if *report_holder => &scripts::ACQUIRE,
                (None, None, false) => return None,
            },
            Self::Bootstrap { .. } => &scripts::BOOTSTRAP,
            Self::Confirm { .. } => &scripts::CONFIRM,
            Self::Extend { .. } => &scripts::EXTEND,
            Self::Exchange { .. } => &scripts::EXCHANGE,
            Self::Release { keys, .. } if keys.is_several() => &scripts::RELEASE_ALL,
            Self::Release { .. } => &scripts::RELEASE,
            Self::Inspect { .. } => &scripts::INSPECT,
            Self::Scan { .. } => return None,
            Self::Remove { .. } => &scripts::REMOVE,
            Self::Describe => &scripts::DESCRIBE,
        })
    }
}
