//! Whose turn it is to send a command for a key.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crate::sync::locked;

/// How many keys are told apart. Two that are not can only have a command of one of them not sent again.
const PLACES: usize = 4096;

/// Counts the commands that have left for each key, so that none that was refused is sent again behind a later
/// one: a release that went straight to the right server must not be overtaken by its acquire.
#[derive(Debug)]
pub(super) struct Turns {
    hasher: RandomState,
    last: Box<[Mutex<u64>]>,
}

/// The place of a command among those for its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    place: usize,
    number: u64,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            last: (0..PLACES).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes a turn and polls a call for the first time, which hands its command over: no other command for the
    /// key is handed over in between.
    pub(super) fn begin<T>(&self, key: &[u8], first: impl FnOnce() -> T) -> (Turn, T) {
        // A remainder is below the number of places.
        let place = (self.hasher.hash_one(key) % PLACES as u64) as usize;
        let mut last = locked(&self.last[place]);
        *last += 1;
        let turn = Turn {
            place,
            number: *last,
        };
        (turn, first())
    }

    /// Polls a call for the first time that sends a command again, unless it has to be the last one for its key and
    /// a later one has left.
    pub(super) fn again<T>(
        &self,
        turn: Turn,
        has_to_be_last: bool,
        first: impl FnOnce() -> T,
    ) -> Option<T> {
        let last = locked(&self.last[turn.place]);
        let is_late = has_to_be_last && *last != turn.number;
        (!is_late).then(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_sent_again_unless_a_later_one_for_its_key_has_left() {
        let turns = Turns::new();
        let (first, ()) = turns.begin(b"a", || ());
        let (other, ()) = turns.begin(b"b", || ());
        assert_eq!(turns.again(first, true, || 1), Some(1));
        assert_eq!(turns.again(first, true, || 2), Some(2));
        let (later, ()) = turns.begin(b"a", || ());
        assert_eq!(turns.again(first, true, || 3), None);
        assert_eq!(turns.again(first, false, || 4), Some(4));
        assert_eq!(turns.again(later, true, || 5), Some(5));
        // Unless the two share a place, which chance decides.
        let is_told_apart = other.place != later.place;
        assert_eq!(turns.again(other, true, || ()).is_some(), is_told_apart);
    }
}
