//! Whose turn it is to send a command for a key.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use crate::sync::locked;

/// So that calls seldom wait for each other.
const SHARDS: usize = 64;

/// Counts the commands that have left for each key, so that none that was refused is sent again behind a later
/// one: a release that went straight to the right server must not be overtaken by its acquire.
///
/// Only keys of calls that are under way are kept, by their hashes.
#[derive(Debug)]
pub(super) struct Turns {
    hasher: RandomState,
    shards: Box<[Mutex<HashMap<u64, Key>>]>,
}

/// How many commands have left for a key. It is locked while one is handed over, and not together with the shard.
type Key = Arc<Mutex<u64>>;

/// The place of a command among those for its key, as long as its call is under way.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    shard: &'t Mutex<HashMap<u64, Key>>,
    hash: u64,
    /// Until it is given up.
    key: Option<Key>,
    number: u64,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes a turn and polls a call for the first time, which hands its command over: no other command for the
    /// key is handed over in between.
    pub(super) fn begin<T>(&self, key: &[u8], first: impl FnOnce() -> T) -> (Turn<'_>, T) {
        let hash = self.hasher.hash_one(key);
        // A remainder is below the number of shards.
        let shard = &self.shards[(hash % SHARDS as u64) as usize];
        let mut turn = Turn {
            shard,
            hash,
            key: None,
            number: 0,
        };
        // Dropped before the turn, also by a panic.
        let key = Arc::clone(locked(shard).entry(hash).or_default());
        turn.key = Some(Arc::clone(&key));
        let mut last = locked(&key);
        *last += 1;
        turn.number = *last;
        // If it panics, the turn is given up.
        let first = first();
        drop(last);
        drop(key);
        (turn, first)
    }
}

impl Turn<'_> {
    /// Polls a call for the first time that sends the command again, unless it has to be the last one for its key
    /// and a later one has left.
    pub(super) fn again<T>(&self, has_to_be_last: bool, first: impl FnOnce() -> T) -> Option<T> {
        let last = locked(self.key.as_ref()?);
        let is_late = has_to_be_last && *last != self.number;
        (!is_late).then(first)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut keys = locked(self.shard);
        // Under the lock, or two turns that end at once would each leave it to the other.
        drop(self.key.take());
        // Others come about under the lock too, or from a turn that is there still.
        let is_last = |key: &Key| Arc::strong_count(key) == 1;
        if keys.get(&self.hash).is_some_and(is_last) {
            keys.remove(&self.hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(turns: &Turns) -> usize {
        turns.shards.iter().map(|shard| locked(shard).len()).sum()
    }

    #[test]
    fn turns_of_one_key_that_end_at_once_leave_nothing_behind() {
        let turns = Turns::new();
        let barrier = std::sync::Barrier::new(2);
        for round in 0_u32..2_000 {
            let key = round.to_be_bytes();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let (turn, ()) = turns.begin(&key, || ());
                        barrier.wait();
                        drop(turn);
                    });
                }
            });
        }
        assert_eq!(kept(&turns), 0);
    }

    #[test]
    fn a_command_is_sent_again_unless_a_later_one_for_its_key_has_left() {
        let turns = Turns::new();
        let (first, ()) = turns.begin(b"a", || ());
        let (other, ()) = turns.begin(b"b", || ());
        assert_eq!(first.again(true, || 1), Some(1));
        assert_eq!(first.again(true, || 2), Some(2));
        let (later, ()) = turns.begin(b"a", || ());
        assert_eq!(first.again(true, || 3), None);
        assert_eq!(first.again(false, || 4), Some(4));
        assert_eq!(later.again(true, || 5), Some(5));
        assert_eq!(other.again(true, || 6), Some(6));
        // Whatever has become of the later one.
        drop(later);
        assert_eq!(first.again(true, || 7), None);
        assert_eq!(kept(&turns), 2);
        drop((first, other));
        assert_eq!(kept(&turns), 0);
        let panics = std::panic::AssertUnwindSafe(|| turns.begin(b"a", || panic!("on purpose")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(kept(&turns), 0);
    }
}
