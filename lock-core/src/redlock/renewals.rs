//! Which locks are to be extended, and when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::Duration;

use super::protocol::Renewal;
use crate::sync::locked;

/// The locks of one `Redlock` that are extended automatically, in the order in which they are due.
#[derive(Debug)]
pub(crate) struct Renewals<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// A lock that is being extended just now is not in here.
    due: BTreeMap<Place, Weak<T>>,
    last_number: u64,
    /// Whether a task extends what is due.
    pub(crate) is_served: bool,
    /// Of that task, while it waits.
    pub(crate) waker: Option<Waker>,
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
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<T>> {
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
        }
    }

    /// Puts a lock into the queue, unless it is over or has been held for the longest time. Returns
    /// whether nobody serves the queue, which the caller has to see to.
    #[must_use]
    pub(crate) fn put(&self, item: &Arc<T>, due: Duration) -> bool {
        let Some(renewed) = item.renewed() else {
            return false;
        };
        if due >= renewed.ends_at && !mutant!(MaxHoldIgnored) {
            return false;
        }
        let waker = {
            let mut queue = self.queue();
            // Whatever ends the lock later finds it in the queue, and removes it.
            if item.is_over() {
                return false;
            }
            let due = nanos(due);
            renewed.due.store(due, Ordering::Relaxed);
            let place = (due, renewed.number);
            queue.due.insert(place, Arc::downgrade(item));
            if !queue.is_served {
                queue.is_served = true;
                return true;
            }
            let is_first = queue.due.first_key_value().map(|(first, _)| *first) == Some(place);
            queue.waker.take_if(|_| is_first)
        };
        // Foreign code, which must not run under the mutex.
        if let Some(waker) = waker {
            waker.wake();
        }
        false
    }

    /// Returns whether there is something to serve that nobody serves. The caller has to see to it
    /// then.
    #[must_use]
    pub(crate) fn take_over_if_unserved(&self) -> bool {
        let mut queue = self.queue();
        let is_unserved = !queue.is_served && !queue.due.is_empty();
        queue.is_served |= is_unserved;
        is_unserved
    }

    /// Takes locks that are due at `now`, and others that may go along with them.
    pub(crate) fn take_due(&self, now: Duration) -> Vec<Arc<T>> {
        let mut queue = self.queue();
        let mut batch: Vec<Arc<T>> = Vec::new();
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
            let earliest = item.renewed().map(|renewed| renewed.renewal.earliest(due));
            let is_alike = batch
                .first()
                .is_none_or(|other| other.node_timeout() == item.node_timeout());
            if earliest.is_none_or(|earliest| earliest > now) || !is_alike {
                break;
            }
            first.remove();
            keys += item.keys();
            batch.push(item);
        }
        batch
    }
}

impl<T> Queue<T> {
    /// When the first lock is due.
    pub(crate) fn first_due(&self) -> Option<Duration> {
        let (place, _) = self.due.first_key_value()?;
        Some(Duration::from_nanos(place.0))
    }

    /// All locks that wait.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.due.values().filter_map(Weak::upgrade).collect()
    }
}

impl<T: Renewable> Renewed<T> {
    /// Takes the lock out of the queue.
    pub(crate) fn forget(&self) {
        let removed = {
            let mut queue = self.renewals.queue();
            let due = self.due.load(Ordering::Relaxed);
            queue.due.remove(&(due, self.number))
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
                is_served: false,
                waker: None,
            }),
        }
    }
}

/// Moments fit 64 bits of nanoseconds for 584 years.
fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}
