//! What is held or tried for, so that a shutdown can release it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::attempt::Attempt;
use crate::node::Token;

/// So many parts, each with a lock of its own, that threads seldom meet.
const SHARDS: usize = 16;

/// By address, which an attempt has for itself while it lives: a token may be that of another one
/// too, when a lock was handed over and resumed in the same process.
type Shard = HashMap<usize, Weak<Attempt>>;

/// The attempts of one `Redlock` of which something may be left somewhere.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    shards: [Mutex<Shard>; SHARDS],
    is_shut: AtomicBool,
}

impl Holders {
    /// Whether nothing can be acquired any more.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst)
    }

    /// From now on nothing can be acquired.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
    }

    /// To be called before anything is sent for it.
    pub(super) fn add(&self, attempt: &Arc<Attempt>) {
        let weak = Arc::downgrade(attempt);
        let replaced = self.shard(&attempt.token).insert(address(attempt), weak);
        drop(replaced);
    }

    /// Nobody holds it any more, and no call is under way for it.
    pub(super) fn remove(&self, attempt: &Attempt) {
        let removed = self.shard(&attempt.token).remove(&address(attempt));
        drop(removed);
    }

    /// All there are at present.
    pub(super) fn all(&self) -> Vec<Arc<Attempt>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            // Upgraded under the lock and dropped outside: the last one to drop an attempt comes
            // back here.
            all.extend(locked(shard).values().filter_map(Weak::upgrade));
        }
        all
    }

    fn shard(&self, token: &Token) -> MutexGuard<'_, Shard> {
        // The last letters of a token are as random as any.
        let letter = token.as_bytes().last().copied().unwrap_or_default();
        locked(&self.shards[usize::from(letter) % SHARDS])
    }
}

fn address(attempt: &Attempt) -> usize {
    if mutant!(ShutdownForgetsResumed) {
        // The same for all of one token.
        let bytes = attempt.token.as_bytes().iter();
        return bytes.fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31) + usize::from(*byte)
        });
    }
    std::ptr::from_ref(attempt).addr()
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing that holds the lock can panic half-way through a change.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
