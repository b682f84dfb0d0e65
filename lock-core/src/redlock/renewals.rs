//! Which locks are to be extended, and when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::Duration;

use super::protocol::Renewal;
use crate::runtime::Home;
use crate::sync::locked;

/// The locks of one `Redlock` that are extended automatically, in the order in which they are due.
#[derive(Debug)]
pub(crate) struct Renewals<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    /// A lock that is being extended just now is in here too: it is due again soon, in case that the
    /// runtime of that round stands still.
    due: BTreeMap<Place, Weak<T>>,
    last_number: u64,
    /// The tasks that extend what is due, one on each runtime that has such locks. Each of them extends
    /// those of all.
    servers: Vec<Server>,
}

/// A task that serves the queue.
#[derive(Debug)]
struct Server {
    home: Home,
    /// Of the task, while it waits.
    waker: Option<Waker>,
}

/// When a lock is due, in ns, and a number that tells it from others that are due at the same time.
type Place = (u64, u64);

/// One lock that is extended automatically.
#[derive(Debug)]
pub(crate) struct Renewed<T> {
    pub(crate) renewal: Renewal,
    /// The lock is not extended any more from then on.
    ends_at: Duration,
    renewals: Arc<Renewals<T>>,
    number: u64,
    /// Its place in the queue, in ns.
    due: AtomicU64,
    /// How often it was taken from there. What an earlier round found out does not put it back.
    rounds: AtomicU64,
}

impl<T> Renewed<T> {
    /// Returns whether the lock has not been held for the longest time yet.
    pub(crate) fn goes_on(&self, now: Duration) -> bool {
        now < self.ends_at
    }
}

/// A lock that is due, in the round of this number.
#[derive(Debug)]
pub(crate) struct Due<T> {
    pub(crate) item: Arc<T>,
    pub(crate) round: u64,
}

/// What can be extended automatically.
pub(crate) trait Renewable: Sized {
    /// How it is extended automatically, if it is.
    fn renewed(&self) -> Option<&Renewed<Self>>;

    /// Returns whether it is not held any more.
    fn is_over(&self) -> bool;

    /// How long a node may take. What has the same timeout is extended by the same command.
    fn node_timeout(&self) -> Duration;

    /// How many keys stand for it.
    fn keys(&self) -> usize;
}

/// The most keys that one command extends, but for those of its last lock: it keeps a server busy
/// for less than a millisecond.
const BATCH: usize = 500;

impl<T: Renewable> Renewals<T> {
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        locked(&self.queue)
    }

    /// An entry for a lock that was acquired at `started`. It is due when it is
    /// [put](Self::put) into the queue.
    pub(crate) fn entry(self: &Arc<Self>, renewal: Renewal, started: Duration) -> Renewed<T> {
        let mut queue = self.queue();
        queue.last_number += 1;
        Renewed {
            renewal,
            ends_at: started.saturating_add(renewal.max_hold),
            renewals: Arc::clone(self),
            number: queue.last_number,
            due: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        }
    }

    /// Puts a lock into the queue again, which was taken in this round, unless it is over, has been held
    /// for the longest time, or was taken once more since then.
    pub(crate) fn put(&self, item: &Arc<T>, due: Duration, round: u64) {
        let Some(renewed) = item.renewed() else {
            return;
        };
        let is_last = due >= renewed.ends_at && !mutant!(MaxHoldIgnored);
        let wakers = {
            let mut queue = self.queue();
            if renewed.rounds.load(Ordering::Relaxed) != round {
                return;
            }
            let before = queue.due.remove(&renewed.place());
            // Whatever ends the lock later finds it in the queue, and removes it.
            if is_last || item.is_over() {
                drop(queue);
                drop(before);
                return;
            }
            let place = queue.insert(item, renewed, due);
            let is_first = queue.due.first_key_value().map(|(first, _)| *first) == Some(place);
            let waiting = queue.servers.iter_mut().filter(|_| is_first);
            let wakers = waiting.filter_map(|server| server.waker.take());
            wakers.collect::<Vec<_>>()
        };
        // Foreign code, which must not run under the mutex.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns whether there is something to serve that nobody serves on this runtime. The caller has to
    /// see to it then.
    #[must_use]
    pub(crate) fn take_over(&self, home: Home) -> bool {
        let mut queue = self.queue();
        let is_served = queue.servers.iter().any(|server| server.home == home);
        let is_unserved = !is_served && !queue.due.is_empty();
        if is_unserved {
            queue.servers.push(Server { home, waker: None });
        }
        is_unserved
    }

    /// The task on this runtime waits until something is due. Returns when that is, or `None` if there is
    /// nothing left, and the task `may_end`.
    pub(crate) fn wait(&self, home: Home, newest: Waker, may_end: bool) -> Option<Duration> {
        let mut queue = self.queue();
        let due = queue.first_due();
        if due.is_none() && may_end {
            let left = queue.remove(home);
            drop(queue);
            drop(left);
            return None;
        }
        let mut servers = queue.servers.iter_mut();
        let server = servers.find(|server| server.home == home);
        let before = server.and_then(|server| server.waker.replace(newest));
        drop(queue);
        // Foreign code, which must not run under the mutex.
        drop(before);
        Some(due.unwrap_or(Duration::MAX))
    }

    /// The task on this runtime has ended. Returns the locks that wait, if nobody else serves them.
    pub(crate) fn leave(&self, home: Home) -> Vec<Arc<T>> {
        let mut queue = self.queue();
        let left = queue.remove(home);
        let waiting = match queue.servers.is_empty() {
            true => queue.due.values().filter_map(Weak::upgrade).collect(),
            false => Vec::new(),
        };
        drop(queue);
        drop(left);
        waiting
    }

    /// Takes locks that are due at `now`, and others that may go along with them.
    pub(crate) fn take_due(&self, now: Duration) -> Vec<Due<T>> {
        let mut queue = self.queue();
        let mut batch: Vec<Due<T>> = Vec::new();
        if queue.first_due().is_none_or(|due| due > now) {
            return batch;
        }
        let mut keys = 0;
        while keys < BATCH
            && let Some(first) = queue.due.first_entry()
        {
            let Some(item) = first.get().upgrade() else {
                first.remove();
                continue;
            };
            let due = Duration::from_nanos(first.key().0);
            let is_alike = batch
                .first()
                .is_none_or(|other| other.item.node_timeout() == item.node_timeout());
            let Some(renewed) = item.renewed() else {
                first.remove();
                continue;
            };
            if renewed.renewal.earliest(due) > now || !is_alike {
                break;
            }
            first.remove();
            let again_at = now.saturating_add(renewed.renewal.rescue_after());
            queue.insert(&item, renewed, again_at);
            keys += item.keys();
            let round = renewed.rounds.fetch_add(1, Ordering::Relaxed) + 1;
            batch.push(Due { item, round });
        }
        batch
    }
}

impl<T> Queue<T> {
    /// When the first lock is due.
    fn first_due(&self) -> Option<Duration> {
        let (place, _) = self.due.first_key_value()?;
        Some(Duration::from_nanos(place.0))
    }

    /// The waker in it is foreign code, which must not be dropped under the mutex.
    fn remove(&mut self, home: Home) -> Option<Server> {
        let index = self.servers.iter().position(|server| server.home == home)?;
        Some(self.servers.remove(index))
    }

    fn insert(&mut self, item: &Arc<T>, renewed: &Renewed<T>, due: Duration) -> Place {
        renewed.due.store(nanos(due), Ordering::Relaxed);
        let place = renewed.place();
        self.due.insert(place, Arc::downgrade(item));
        place
    }
}

impl<T> Renewed<T> {
    fn place(&self) -> Place {
        (self.due.load(Ordering::Relaxed), self.number)
    }
}

impl<T: Renewable> Renewed<T> {
    /// Takes the lock out of the queue.
    pub(crate) fn forget(&self) {
        let removed = {
            let mut queue = self.renewals.queue();
            queue.due.remove(&self.place())
        };
        drop(removed);
    }
}

impl<T> Default for Renewals<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                due: BTreeMap::new(),
                last_number: 0,
                servers: Vec::new(),
            }),
        }
    }
}

/// Moments fit 64 bits of nanoseconds for 584 years.
fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::runtime::AmbientId;

    const MS: Duration = Duration::from_millis(1);

    #[derive(Debug, Default)]
    struct Lock {
        renewed: OnceLock<Renewed<Self>>,
    }

    impl Renewable for Lock {
        fn renewed(&self) -> Option<&Renewed<Self>> {
            self.renewed.get()
        }

        fn is_over(&self) -> bool {
            false
        }

        fn node_timeout(&self) -> Duration {
            MS
        }

        fn keys(&self) -> usize {
            1
        }
    }

    /// A lock that is extended every 80 ms from the beginning on, and its queue.
    fn lock() -> (Arc<Renewals<Lock>>, Arc<Lock>) {
        let (renewals, lock) = (Arc::<Renewals<Lock>>::default(), Arc::new(Lock::default()));
        let renewal = Renewal::new(1000 * MS, Some(80 * MS), 1000 * MS).unwrap();
        let entry = renewals.entry(renewal, Duration::ZERO);
        assert!(lock.renewed.set(entry).is_ok());
        renewals.put(&lock, 80 * MS, 0);
        (renewals, lock)
    }

    #[test]
    fn a_lock_whose_round_stands_still_is_due_again_and_that_round_says_nothing_any_more() {
        let (renewals, lock) = lock();
        assert!(renewals.take_due(60 * MS).is_empty());
        let first = renewals.take_due(80 * MS);
        assert_eq!(first[0].round, 1);
        assert!(renewals.take_due(100 * MS).is_empty(), "it is in a round");
        let second = renewals.take_due(120 * MS);
        assert_eq!(second[0].round, 2, "half an interval later");
        renewals.put(&lock, 500 * MS, first[0].round);
        assert_eq!(renewals.take_due(160 * MS)[0].round, 3);
        renewals.put(&lock, 240 * MS, 3);
        assert!(renewals.take_due(200 * MS).is_empty());
        assert_eq!(renewals.take_due(240 * MS)[0].round, 4);
    }

    #[test]
    fn each_runtime_has_a_task_of_its_own_as_long_as_there_is_something_to_extend() {
        let (renewals, lock) = lock();
        let (one, other) = (None, Some(AmbientId::Thread));
        assert!(renewals.take_over(one));
        assert!(!renewals.take_over(one));
        assert!(renewals.take_over(other));
        assert!(renewals.leave(one).is_empty(), "the other one goes on");
        assert!(renewals.take_over(one));
        renewals.leave(one);
        assert_eq!(renewals.leave(other).len(), 1);
        let waker = || Waker::noop().clone();
        assert!(renewals.take_over(one));
        assert_eq!(renewals.wait(one, waker(), true), Some(80 * MS));
        lock.renewed().unwrap().forget();
        assert_eq!(renewals.wait(one, waker(), false), Some(Duration::MAX));
        assert_eq!(renewals.wait(one, waker(), true), None);
        assert!(!renewals.take_over(one), "there is nothing to extend");
    }
}
