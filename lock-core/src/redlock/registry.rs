//! What is held or tried for, so that a shutdown can release it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The number of parts, each with a mutex of its own, so that threads seldom meet.
const SHARDS: usize = 16;

/// All items of which something may be left on some node, until each is dropped.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    is_shut: AtomicBool,
}

#[derive(Debug)]
struct Shard<T> {
    slots: Vec<Option<Weak<T>>>,
    free: Vec<usize>,
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
            slot: self.shard(shard).add(Arc::downgrade(item)),
        }
    }

    /// All items there are at present.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let mut all = Vec::new();
        for shard in 0..SHARDS {
            // Upgraded under the mutex and dropped outside: the last owner of an item comes back
            // here to remove it.
            let shard = self.shard(shard);
            all.extend(shard.slots.iter().flatten().filter_map(Weak::upgrade));
        }
        all
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Shard<T>> {
        // Nothing that holds the mutex can panic half-way through a change.
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        let shard = |_| {
            Mutex::new(Shard {
                slots: Vec::new(),
                free: Vec::new(),
            })
        };
        Self {
            shards: std::array::from_fn(shard),
            is_shut: AtomicBool::new(false),
        }
    }
}

impl<T> Shard<T> {
    fn add(&mut self, item: Weak<T>) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(item);
                slot
            }
            None => {
                self.slots.push(Some(item));
                self.slots.len() - 1
            }
        }
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        let mut shard = self.registry.shard(self.shard);
        shard.slots[self.slot] = None;
        shard.free.push(self.slot);
    }
}
