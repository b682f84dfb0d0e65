//! What is held or tried for, so that a shutdown can release it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use slab::Slab;

use crate::sync::locked;

/// The number of parts, each with a mutex of its own, so that threads seldom meet.
const SHARDS: usize = 16;

/// All items of which something may be left on some node, until each is dropped.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    shards: [Mutex<Slab<Weak<T>>>; SHARDS],
    is_shut: AtomicBool,
}

/// The entry of one item, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration<T> {
    registry: Arc<Registry<T>>,
    shard: usize,
    slot: usize,
}

impl<T> Registry<T> {
    /// Returns whether nothing can be acquired any more.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst)
    }

    /// From now on nothing can be acquired.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
    }

    /// Enters an item; `random` chooses its shard.
    pub(crate) fn add(self: &Arc<Self>, item: &Arc<T>, random: u8) -> Registration<T> {
        let shard = usize::from(random) % SHARDS;
        Registration {
            registry: Arc::clone(self),
            shard,
            slot: locked(&self.shards[shard]).insert(Arc::downgrade(item)),
        }
    }

    /// All items there are at present.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            // Upgraded under the mutex and dropped outside: the last owner of an item comes back
            // here to remove it.
            all.extend(locked(shard).iter().filter_map(|(_, item)| item.upgrade()));
        }
        all
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            is_shut: AtomicBool::new(false),
        }
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        locked(&self.registry.shards[self.shard]).try_remove(self.slot);
    }
}
