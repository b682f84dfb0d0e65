//! What is held or tried for, so that a shutdown can release it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::attempt::Attempt;
use crate::node::Token;

/// So many parts, each with a lock of its own, that threads seldom meet.
const SHARDS: usize = 16;

#[derive(Debug, Default)]
struct Shard {
    places: Vec<Option<Weak<Attempt>>>,
    free: Vec<usize>,
}

/// Where an attempt stands among the holders, if it does.
#[derive(Debug, Default)]
pub(super) struct Seat(OnceLock<usize>);

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

    /// To be called before anything is sent for it, and once.
    pub(super) fn add(&self, attempt: &Arc<Attempt>) {
        let seat = &attempt.seat.0;
        seat.get_or_init(|| self.shard(&attempt.token).add(attempt));
    }

    /// Nobody holds it any more, and no call is under way for it.
    pub(super) fn remove(&self, attempt: &Attempt) {
        if let Some(place) = attempt.seat.0.get() {
            self.shard(&attempt.token).free(*place);
        }
    }

    /// All there are at present.
    pub(super) fn all(&self) -> Vec<Arc<Attempt>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            // Upgraded under the lock and dropped outside: the last one to drop an attempt comes
            // back here.
            let shard = locked(shard);
            all.extend(shard.places.iter().flatten().filter_map(Weak::upgrade));
        }
        all
    }

    fn shard(&self, token: &Token) -> MutexGuard<'_, Shard> {
        // The last letters of a token are as random as any.
        let letter = token.as_bytes().last().copied().unwrap_or_default();
        locked(&self.shards[usize::from(letter) % SHARDS])
    }
}

impl Shard {
    fn add(&mut self, attempt: &Arc<Attempt>) -> usize {
        let weak = Some(Arc::downgrade(attempt));
        match self.free.pop() {
            Some(place) => {
                self.places[place] = weak;
                place
            }
            None => {
                self.places.push(weak);
                self.places.len() - 1
            }
        }
    }

    fn free(&mut self, place: usize) {
        self.places[place] = None;
        self.free.push(place);
    }
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing that holds the lock can panic half-way through a change.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
