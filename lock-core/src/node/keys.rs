//! The keys of one lock.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::{ExtendEntry, Fence, Operation, Token};
use crate::ttl::Ttl;

/// The keys of one lock: one for each resource that it stands for, so nearly always a single one.
///
/// A node handles both cases alike by [`as_slice`](Self::as_slice). Only the form of some answers
/// depends on [`is_several`](Self::is_several).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The key of a lock on one resource.
    One(Arc<[u8]>),
    /// The keys of a lock on several resources, no two of them the same. A lock sends them in the
    /// order of their bytes; a node takes them in the order in which they come. On a cluster, they
    /// belong to one slot.
    Several(Arc<[Arc<[u8]>]>),
}

impl Keys {
    /// Returns these keys in the order of their bytes.
    #[must_use]
    pub fn new(mut keys: Vec<Arc<[u8]>>) -> Self {
        keys.sort_unstable();
        match <[_; 1]>::try_from(keys) {
            Ok([key]) => Self::One(key),
            Err(keys) => Self::Several(keys.into()),
        }
    }

    /// Returns all keys.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<[u8]>] {
        match self {
            Self::One(key) => slice::from_ref(key),
            Self::Several(keys) => keys,
        }
    }

    /// Returns the first key, which stands for all of them.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        self.as_slice().first().map_or(&[], |key| key)
    }

    /// Returns whether they are the keys of a lock on several resources.
    #[must_use]
    pub fn is_several(&self) -> bool {
        matches!(self, Self::Several(_))
    }

    pub(crate) fn acquire(&self, token: Token, ttl: Ttl, report_holder: bool) -> Operation {
        Operation::Acquire {
            keys: self.clone(),
            token,
            ttl,
            report_holder,
            fence: None,
            guard: None,
        }
    }

    /// Sets the keys and raises their counters.
    pub(crate) fn acquire_fenced(&self, token: Token, ttl: Ttl, fence: Fence) -> Operation {
        Operation::Acquire {
            keys: self.clone(),
            token,
            ttl,
            report_holder: true,
            fence: Some(fence),
            guard: None,
        }
    }

    pub(crate) fn exchange(&self, new: Token, old: Arc<[Token]>, ttl: Ttl) -> Operation {
        let keys = self.clone();
        Operation::Exchange {
            keys,
            old,
            new,
            ttl,
        }
    }

    pub(crate) fn release(&self, token: Token, keep: Duration) -> Operation {
        let keys = match self {
            Self::Several(keys) if mutant!(SeveralPartlyReleased) => {
                Self::Several(Arc::from([Arc::clone(&keys[0])]))
            }
            all => all.clone(),
        };
        Operation::Release { keys, token, keep }
    }

    pub(crate) fn entries(&self, token: Token, ttl: Ttl) -> impl Iterator<Item = ExtendEntry> {
        self.as_slice().iter().map(move |key| ExtendEntry {
            key: Arc::clone(key),
            token,
            ttl,
        })
    }
}

impl From<Arc<[u8]>> for Keys {
    fn from(key: Arc<[u8]>) -> Self {
        Self::One(key)
    }
}
