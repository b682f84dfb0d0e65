//! Releases that a node still owes an answer to.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::node::{Keys, Token};

/// A release that must be sent again: the key may still hold the token at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) keys: Keys,
    pub(crate) token: Token,
    /// Until when the release keeps the key.
    pub(crate) hold_until: Duration,
    /// When the key's ttl has ended it by itself.
    pub(crate) until: Duration,
}

/// A task that has taken nothing for so long lives on a runtime that stands still: between two times it
/// pauses for a second at most, and waits for answers.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// The debts of one node, in the order in which they came; bounded.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    queue: BTreeMap<u64, Debt>,
    /// Where the debt of an attempt is in the queue.
    numbers: HashMap<Token, u64>,
    last_number: u64,
    /// Whether a task pays them.
    is_served: bool,
    /// When it took some last.
    taken_at: Duration,
}

impl Debts {
    /// The most debts that are kept for a node, as after a burst of releases that it did not answer. A
    /// further one pushes the oldest out, whose key then lives until its ttl ends.
    pub(crate) const MAX: usize = 64 * 1024;

    /// Adds a debt. One of the same attempt takes no second place: a caller who releases again and
    /// again during an outage must not push the debts of others out. Returns the one that was pushed out.
    #[must_use]
    pub(crate) fn push(&mut self, debt: Debt) -> Option<Debt> {
        if let Some(known) = self.numbers.get(&debt.token).copied() {
            let known = self.queue.get_mut(&known)?;
            known.until = known.until.max(debt.until);
            return None;
        }
        let is_full = self.queue.len() == Self::MAX;
        let oldest = is_full.then(|| self.pop_first()).flatten();
        self.last_number += 1;
        self.numbers.insert(debt.token, self.last_number);
        self.queue.insert(self.last_number, debt);
        oldest
    }

    fn pop_first(&mut self) -> Option<Debt> {
        let (_, debt) = self.queue.pop_first()?;
        self.numbers.remove(&debt.token);
        Some(debt)
    }

    /// Returns whether there are debts that no task pays. The caller has to see to it then.
    #[must_use]
    pub(crate) fn take_over_if_unserved(&mut self, now: Duration) -> bool {
        let is_stalled = now.saturating_sub(self.taken_at) > STALLED_AFTER;
        let is_unserved = (!self.is_served || is_stalled) && !self.queue.is_empty();
        if is_unserved {
            (self.is_served, self.taken_at) = (true, now);
        }
        is_unserved
    }

    /// Returns how many there are, at least. What a task is paying just now counts once.
    pub(crate) fn count(&self) -> usize {
        self.queue.len().max(usize::from(self.is_served))
    }

    /// The task that pays them has ended.
    pub(crate) fn leave(&mut self) {
        self.is_served = false;
    }

    /// Forgets what the ttl has settled, then takes the oldest debts, at most `limit`. If there are none,
    /// the task that pays them ends.
    pub(crate) fn take(&mut self, now: Duration, limit: usize) -> Vec<Debt> {
        let numbers = &mut self.numbers;
        self.queue.retain(|_, debt| {
            let is_open = debt.until > now;
            if !is_open {
                numbers.remove(&debt.token);
            }
            is_open
        });
        self.is_served &= !self.queue.is_empty();
        self.taken_at = now;
        (0..limit).map_while(|_| self.pop_first()).collect()
    }

    /// Puts back a debt that was taken and is still open, behind the others: what a server refuses
    /// for this one key (its ACL, say) must not keep the rest waiting.
    pub(crate) fn put_back(&mut self, debt: Debt) -> Option<Debt> {
        match self.queue.len() < Self::MAX {
            true => self.push(debt),
            false => Some(debt),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn debt(number: usize) -> Debt {
        Debt {
            keys: Keys::One(Arc::from(number.to_string().as_bytes())),
            token: Token::from_random((number as u128).to_be_bytes()),
            hold_until: Duration::ZERO,
            until: Duration::from_secs(number as u64),
        }
    }

    #[test]
    fn debts_are_taken_in_order_and_those_whose_ttl_has_passed_are_forgotten() {
        let mut debts = Debts::default();
        for number in [1, 2, 3, 4, 5] {
            assert_eq!(debts.push(debt(number)), None);
        }
        assert_eq!(debts.take(Duration::from_secs(2), 2), [debt(3), debt(4)]);
        assert_eq!(debts.put_back(debt(4)), None);
        assert_eq!(debts.take(Duration::ZERO, 9), [debt(5), debt(4)]);
        assert_eq!(debts.take(Duration::ZERO, 9), []);
    }

    #[test]
    fn one_task_pays_until_nothing_is_owed() {
        let mut debts = Debts::default();
        assert!(
            !debts.take_over_if_unserved(Duration::ZERO),
            "nothing is owed"
        );
        assert_eq!(debts.push(debt(1)), None);
        assert!(debts.take_over_if_unserved(Duration::ZERO));
        assert_eq!(debts.push(debt(2)), None);
        assert!(
            !debts.take_over_if_unserved(Duration::ZERO),
            "a task is there"
        );
        assert_eq!(debts.take(Duration::ZERO, 9), [debt(1), debt(2)]);
        assert_eq!(debts.push(debt(3)), None);
        assert!(
            !debts.take_over_if_unserved(Duration::ZERO),
            "it looks once more"
        );
        assert_eq!(debts.take(Duration::ZERO, 9), [debt(3)]);
        assert_eq!(debts.take(Duration::ZERO, 9), []);
        assert_eq!(debts.push(debt(4)), None);
        assert!(debts.take_over_if_unserved(Duration::ZERO));
        debts.leave();
        assert!(
            debts.take_over_if_unserved(Duration::ZERO),
            "the task ended before"
        );
        assert!(!debts.take_over_if_unserved(STALLED_AFTER));
        let later = STALLED_AFTER + Duration::from_nanos(1);
        assert!(debts.take_over_if_unserved(later), "the task stands still");
        assert!(!debts.take_over_if_unserved(later));
    }

    #[test]
    fn one_attempt_has_one_debt_which_lasts_as_long_as_the_last_one_said() {
        let mut debts = Debts::default();
        let longer = Debt {
            until: Duration::from_secs(9),
            ..debt(1)
        };
        assert_eq!(debts.push(debt(1)), None);
        assert_eq!(debts.push(debt(2)), None);
        assert_eq!(debts.push(longer.clone()), None);
        assert_eq!(debts.put_back(debt(1)), None);
        assert_eq!(debts.take(Duration::ZERO, 9), [longer, debt(2)]);
    }

    #[test]
    fn the_set_is_bounded_and_the_oldest_go_first() {
        let mut debts = Debts::default();
        for number in 1..=Debts::MAX {
            assert_eq!(debts.push(debt(number)), None);
        }
        for pushed_out in 1..=3 {
            let further = debt(Debts::MAX + pushed_out);
            assert_eq!(debts.push(further), Some(debt(pushed_out)));
        }
        assert_eq!(debts.put_back(debt(1)), Some(debt(1)));
        let kept = debts.take(Duration::ZERO, usize::MAX);
        assert_eq!(kept.len(), Debts::MAX);
        assert_eq!(kept[0], debt(4));
    }
}
