//! Extends the locks that asked for it: one task for all of a `Redlock`.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::attempt::{Attempt, nanos};
use super::engine::Engine;
use super::protocol::Renewal;
use super::renewing;
use crate::runtime::{BoxFuture, Runtime};

/// The most keys that one command extends, but for those of its last lock: it keeps a server busy for less than a millisecond.
const BATCH: usize = 500;

/// The locks of one `Redlock` that are extended automatically.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// What is due, in order. A lock that is being extended just now is not in here.
    due: BTreeMap<Place, Weak<Attempt>>,
    last_number: u64,
    /// Whether a task sees to it.
    is_served: bool,
    /// Of that task, while it waits.
    waker: Option<Waker>,
}

/// When a lock is due, in ns, and a number that tells it from others due at the same time.
type Place = (u64, u64);

/// One lock that is extended automatically.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) renewal: Renewal,
    /// It is not extended any more from then on.
    ends_at: Duration,
    number: u64,
    /// Its place in the queue, in ns.
    due: AtomicU64,
}

/// Extends the lock from now on, until it is released, lost, or held for the longest time.
pub(crate) fn start(attempt: &Arc<Attempt>, renewal: Renewal) {
    let number = attempt.engine.renewals.number();
    let renewed = Renewed {
        renewal,
        ends_at: attempt.started.saturating_add(renewal.max_hold),
        number,
        due: AtomicU64::new(0),
    };
    if attempt.renewed.set(Box::new(renewed)).is_ok() {
        put(attempt, attempt.started.saturating_add(renewal.interval));
    }
}

/// The lock is to be extended at `due`.
pub(super) fn put(attempt: &Arc<Attempt>, due: Duration) {
    let Some(renewed) = attempt.renewed.get() else {
        return;
    };
    let is_in_time = due < renewed.ends_at || mutant!(MaxHoldIgnored);
    if is_in_time && attempt.engine.renewals.insert(attempt, renewed, due) {
        serve(&attempt.engine, &attempt.runtime);
    }
}

/// Goes on where a runtime ended. Costs next to nothing if none did.
pub(crate) fn resume(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>) {
    if engine.renewals.take_over_if_unserved() {
        serve(engine, runtime);
    }
}

fn serve(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>) {
    let was_taken = Arc::new(AtomicBool::new(false));
    let renewer = Renewer {
        engine: Arc::clone(engine),
        runtime: Arc::clone(runtime),
        rounds: FuturesUnordered::new(),
        timer: None,
        is_done: false,
        was_taken: Arc::clone(&was_taken),
    };
    runtime.spawn(Box::pin(renewer.run()));
    was_taken.store(true, Ordering::SeqCst);
}

impl Renewals {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that holds the lock can panic half-way through a change.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut queue = self.queue();
        queue.last_number += 1;
        queue.last_number
    }

    /// Whether the caller has to see to it that somebody serves the queue.
    fn insert(&self, attempt: &Arc<Attempt>, renewed: &Renewed, due: Duration) -> bool {
        let waker = {
            let mut queue = self.queue();
            // Whoever ends it later finds it in the queue, and removes it.
            if attempt.is_over() {
                return false;
            }
            renewed.due.store(nanos(due), Ordering::Relaxed);
            let place = (nanos(due), renewed.number);
            queue.due.insert(place, Arc::downgrade(attempt));
            if !queue.is_served {
                queue.is_served = true;
                return true;
            }
            let is_first = queue.due.first_key_value().map(|(first, _)| *first) == Some(place);
            queue.waker.take_if(|_| is_first)
        };
        // Foreign code, which must not run under the lock.
        if let Some(waker) = waker {
            waker.wake();
        }
        false
    }

    /// The lock is not extended any more.
    pub(super) fn forget(&self, renewed: &Renewed) {
        let mut queue = self.queue();
        let due = renewed.due.load(Ordering::Relaxed);
        let removed = queue.due.remove(&(due, renewed.number));
        drop(queue);
        drop(removed);
    }

    fn take_over_if_unserved(&self) -> bool {
        let mut queue = self.queue();
        let is_unserved = !queue.is_served && !queue.due.is_empty();
        queue.is_served |= is_unserved;
        is_unserved
    }

    /// Locks that are due at `now`, with others that may go along with them.
    fn take_due(&self, now: Duration) -> Vec<Arc<Attempt>> {
        let mut queue = self.queue();
        let mut batch = Vec::new();
        let mut node_timeout = None;
        let is_due = |place: &Place| place.0 <= nanos(now);
        if !queue
            .due
            .first_key_value()
            .is_some_and(|(place, _)| is_due(place))
        {
            return batch;
        }
        let mut keys = 0;
        while keys < BATCH
            && let Some(first) = queue.due.first_entry()
        {
            let Some(attempt) = first.get().upgrade() else {
                first.remove();
                continue;
            };
            let due = Duration::from_nanos(first.key().0);
            let earliest = attempt.renewed.get().map(|it| it.renewal.earliest(due));
            // What nodes are given less time for goes by itself.
            let timeout = *node_timeout.get_or_insert(attempt.timing.node_timeout);
            if earliest.is_none_or(|earliest| earliest > now)
                || timeout != attempt.timing.node_timeout
            {
                break;
            }
            first.remove();
            keys += attempt.keys.as_slice().len();
            batch.push(attempt);
        }
        batch
    }
}

/// The one task that extends the locks of a `Redlock`. It ends when there are none.
struct Renewer {
    engine: Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    rounds: FuturesUnordered<BoxFuture<'static, ()>>,
    timer: Option<(Duration, BoxFuture<'static, ()>)>,
    /// It has left the queue: another task may serve it by now.
    is_done: bool,
    /// Its runtime has taken it, and has not dropped it at once as one that has ended does.
    was_taken: Arc<AtomicBool>,
}

impl Renewer {
    async fn run(mut self) {
        loop {
            let now = self.runtime.now();
            loop {
                let batch = self.engine.renewals.take_due(now);
                if batch.is_empty() {
                    break;
                }
                let round =
                    renewing::run(Arc::clone(&self.engine), Arc::clone(&self.runtime), batch);
                self.rounds.push(Box::pin(round));
            }
            if poll_fn(|cx| self.poll_work(cx)).await {
                return;
            }
        }
    }

    /// Ready with whether all is done, or when there may be something to do.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while let Poll::Ready(Some(())) = self.rounds.poll_next_unpin(cx) {}
        // Wakers are foreign code, which must not run under the lock.
        let waker = cx.waker().clone();
        let (due, before) = {
            let mut queue = self.engine.renewals.queue();
            let first = queue.due.first_key_value().map(|(place, _)| *place);
            if first.is_none() && self.rounds.is_empty() {
                queue.is_served = false;
                self.is_done = true;
                return Poll::Ready(true);
            }
            (first, queue.waker.replace(waker))
        };
        drop(before);
        let Some((due, _)) = due else {
            return Poll::Pending;
        };
        let due = Duration::from_nanos(due);
        if self.timer.as_ref().is_none_or(|(until, _)| *until != due) {
            let left = due.saturating_sub(self.runtime.now());
            self.timer = Some((due, self.runtime.sleep(left)));
        }
        let timer = self.timer.as_mut().map(|(_, sleep)| sleep.as_mut());
        if timer.is_none_or(|sleep| sleep.poll(cx).is_pending()) {
            return Poll::Pending;
        }
        self.timer = None;
        Poll::Ready(false)
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // Its runtime ended. Another lock's goes on, or the next use of the `Redlock`.
        let (waker, waiting) = {
            let mut queue = self.engine.renewals.queue();
            queue.is_served = false;
            // Of a runtime that did not even take it, whoever spawned it goes on.
            let waiting = match self.was_taken.load(Ordering::SeqCst) {
                true => queue.due.values().filter_map(Weak::upgrade).collect(),
                false => Vec::new(),
            };
            (queue.waker.take(), waiting)
        };
        drop(waker);
        for lock in waiting {
            if !self.engine.renewals.take_over_if_unserved() {
                return;
            }
            serve(&self.engine, &lock.runtime);
        }
    }
}
