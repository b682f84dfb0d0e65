//! The keys of one lock: one for each resource that it stands for.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::node::{ExtendEntry, Operation, Token};
use crate::ttl::Ttl;

/// One key, as nearly always, or several that are locked together, in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    One(Arc<[u8]>),
    Several(Arc<[Arc<[u8]>]>),
}

impl Keys {
    /// Of at least one key.
    pub(crate) fn new(mut keys: Vec<Arc<[u8]>>) -> Self {
        keys.sort_unstable();
        match <[_; 1]>::try_from(keys) {
            Ok([key]) => Self::One(key),
            Err(keys) => Self::Several(keys.into()),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Arc<[u8]>] {
        match self {
            Self::One(key) => slice::from_ref(key),
            Self::Several(keys) => keys,
        }
    }

    /// The key that stands for all.
    pub(crate) fn first(&self) -> &[u8] {
        self.as_slice().first().map_or(&[], |key| key)
    }

    /// What sets them if all are free; if it `tells`, it says who holds them if not.
    pub(crate) fn acquire(&self, token: Token, ttl: Ttl, tells: bool) -> Operation {
        match self {
            Self::One(key) if tells => Operation::AcquireOrReport {
                key: Arc::clone(key),
                token,
                ttl,
            },
            Self::One(key) => Operation::Acquire {
                key: Arc::clone(key),
                token,
                ttl,
            },
            Self::Several(keys) => Operation::AcquireAll {
                keys: Arc::clone(keys),
                token,
                ttl,
            },
        }
    }

    pub(crate) fn release(&self, token: Token, keep: Duration) -> Operation {
        match self {
            Self::One(key) => Operation::Release {
                key: Arc::clone(key),
                token,
                keep,
            },
            Self::Several(keys) => Operation::ReleaseAll {
                keys: match mutant!(SeveralPartlyReleased) {
                    true => Arc::from([Arc::clone(&keys[0])]),
                    false => Arc::clone(keys),
                },
                token,
                keep,
            },
        }
    }

    pub(crate) fn entries(&self, token: Token, ttl: Ttl) -> impl Iterator<Item = ExtendEntry> {
        self.as_slice().iter().map(move |key| ExtendEntry {
            key: Arc::clone(key),
            token,
            ttl,
        })
    }
}
