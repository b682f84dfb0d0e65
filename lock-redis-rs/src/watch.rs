//! Deadlines of calls, without a timer for each.
//!
//! A tokio timer costs a call 0.3 µs, a sixth of what redis-rs spends on the whole command, and
//! it is nearly always cancelled. So a call that waits leaves its waker in a list, and one task
//! for each runtime and node wakes those that are overdue. The task sleeps until the earliest
//! deadline that it saw, and parks while nobody calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::NodeError;

use crate::locked;
use crate::nudge::Nudge;
use crate::rt::{Id, Instant, Runtime, after};

/// The watches of one node: one for each runtime that called it.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: Vec<Arc<Watch>>,
    /// The last runtime that turned out to have no timers, so that it is probed only once.
    without_timers: Option<(Id, NodeError)>,
}

impl Watches {
    /// The watch of the runtime that the caller runs on, started anew if its runtime has ended.
    ///
    /// A caller whom no runtime serves borrows any watch that runs: redis-rs does not care who
    /// polls.
    pub(crate) fn current(&mut self) -> Result<Arc<Watch>, NodeError> {
        let runtime = match Runtime::current() {
            Ok(runtime) => runtime,
            Err(none) => {
                let running = self.watches.iter().find(|watch| watch.runs());
                return running.cloned().ok_or(none);
            }
        };
        let id = runtime.id();
        if let Some(watch) = self
            .watches
            .iter()
            .find(|watch| watch.runtime == id && watch.runs())
        {
            return Ok(Arc::clone(watch));
        }
        self.start(runtime)
    }

    #[cold]
    fn start(&mut self, runtime: Runtime) -> Result<Arc<Watch>, NodeError> {
        let id = runtime.id();
        if let Some((known, error)) = &self.without_timers
            && *known == id
        {
            return Err(error.clone());
        }
        if let Err(error) = runtime.probe() {
            self.without_timers = Some((id, error.clone()));
            return Err(error);
        }
        self.watches.retain(|watch| watch.runs());
        let watch = Arc::new(Watch::new(id));
        self.watches.push(Arc::clone(&watch));
        runtime.spawn(keep(Keeper(Arc::clone(&watch)), runtime.clone()));
        Ok(watch)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.stop();
        }
    }
}

/// How many lists of calls there are.
const LISTS: usize = 8;

/// Wakes the calls of one runtime when they are overdue.
#[derive(Debug)]
pub(crate) struct Watch {
    runtime: Id,
    lists: [List; LISTS],
    nudge: Nudge,
}

/// Calls that wait, apart from other lists in memory.
#[derive(Debug, Default)]
#[repr(align(128))]
struct List(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    places: Vec<Place>,
    free: Vec<usize>,
    /// When the keeper looks here next; `None` if it does not know of any deadline.
    next_look: Option<Instant>,
    /// The shortest wait that began since the keeper's last look.
    shortest: Option<Duration>,
    stopped: bool,
}

/// Where a call waits.
#[derive(Clone, Copy, Debug)]
struct Seat {
    list: usize,
    place: usize,
}

#[derive(Debug)]
enum Place {
    Free,
    Waiting { deadline: Instant, waker: Waker },
    Overdue,
}

impl Watch {
    fn new(runtime: Id) -> Self {
        Self {
            runtime,
            lists: Default::default(),
            nudge: Nudge::default(),
        }
    }

    fn runs(&self) -> bool {
        !self.list(0).stopped
    }

    /// Whether it is the watch of the runtime that the caller runs on.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.runtime.is_current()
    }

    fn list(&self, list: usize) -> MutexGuard<'_, Calls> {
        locked(&self.lists[list].0)
    }

    /// Waits for the future, at most until `within` from its first poll; `None` says that it took
    /// longer.
    pub(crate) fn limit<F: Future + Unpin>(&self, future: F, within: Duration) -> Limited<'_, F> {
        Limited {
            future,
            watch: self,
            within,
            seat: None,
        }
    }

    /// Takes a place in the list; `None` if nobody would come to look.
    fn enter(&self, within: Duration, waker: &Waker) -> Option<Seat> {
        let deadline = after(within);
        let list = list_of_thread();
        let mut calls = self.list(list);
        if calls.stopped {
            return None;
        }
        calls.shortest = Some(calls.shortest.map_or(within, |known| known.min(within)));
        let waiting = Place::Waiting {
            deadline,
            waker: waker.clone(),
        };
        let place = match calls.free.pop() {
            Some(place) => {
                calls.places[place] = waiting;
                place
            }
            None => {
                calls.places.push(waiting);
                calls.places.len() - 1
            }
        };
        if calls.next_look.is_none_or(|at| deadline < at) {
            calls.next_look = Some(deadline);
            drop(calls);
            self.nudge.give();
        }
        Some(Seat { list, place })
    }

    /// Whether the call at this place may go on waiting; keeps its newest waker.
    fn may_wait(&self, seat: Seat, newest: &Waker) -> bool {
        let mut calls = self.list(seat.list);
        match &mut calls.places[seat.place] {
            Place::Waiting { waker, .. } => {
                waker.clone_from(newest);
                !calls.stopped
            }
            Place::Overdue | Place::Free => false,
        }
    }

    fn leave(&self, seat: Seat) {
        let mut calls = self.list(seat.list);
        let left = std::mem::replace(&mut calls.places[seat.place], Place::Free);
        calls.free.push(seat.place);
        // Its waker is foreign code: not under the lock.
        drop(calls);
        drop(left);
    }

    /// Wakes what is overdue, and says when to look again.
    fn look(&self, now: Instant) -> Look {
        let mut next: Option<Instant> = None;
        for list in 0..LISTS {
            let mut overdue = Vec::new();
            let mut calls = self.list(list);
            if calls.stopped {
                return Look::Never;
            }
            calls.look(now, &mut overdue);
            next = [next, calls.next_look].into_iter().flatten().min();
            drop(calls);
            overdue.into_iter().for_each(Waker::wake);
        }
        next.map_or(Look::WhenNudged, Look::At)
    }

    fn stop(&self) {
        for list in 0..LISTS {
            let mut calls = self.list(list);
            calls.stopped = true;
            let places = calls.places.iter_mut();
            let waiting: Vec<Waker> = places.filter_map(Place::take_overdue).collect();
            drop(calls);
            waiting.into_iter().for_each(Waker::wake);
        }
        self.nudge.give();
    }
}

impl Calls {
    /// Takes the wakers of those that are overdue, and finds out when to look again.
    fn look(&mut self, now: Instant, overdue: &mut Vec<Waker>) {
        let mut earliest: Option<Instant> = None;
        for place in &mut self.places {
            match place {
                Place::Waiting { deadline, .. } if *deadline > now => {
                    earliest = Some(earliest.map_or(*deadline, |known| known.min(*deadline)));
                }
                Place::Waiting { .. } => overdue.extend(place.take_overdue()),
                Place::Free | Place::Overdue => {}
            }
        }
        // Calls come and go faster than deadlines pass: as long as there were some, the keeper
        // looks again, so that a lonely call does not have to wake it from its park.
        let shortest = self.shortest.take();
        self.next_look = earliest.or(shortest.and_then(|within| now.checked_add(within)));
    }
}

/// The list that this thread's calls go to.
fn list_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LIST: usize = THREADS.fetch_add(1, Ordering::Relaxed) % LISTS;
    }
    // A thread that is about to end takes the first one.
    LIST.try_with(|list| *list).unwrap_or_default()
}

impl Place {
    /// Marks a waiting call as overdue and takes its waker.
    fn take_overdue(&mut self) -> Option<Waker> {
        if !matches!(self, Self::Waiting { .. }) {
            return None;
        }
        match std::mem::replace(self, Self::Overdue) {
            Self::Waiting { waker, .. } => Some(waker),
            Self::Free | Self::Overdue => None,
        }
    }
}

enum Look {
    At(Instant),
    WhenNudged,
    Never,
}

/// Stops the watch when its task ends for whatever reason, so that no call relies on it any more.
struct Keeper(Arc<Watch>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.stop();
    }
}

async fn keep(keeper: Keeper, runtime: Runtime) {
    let watch = &keeper.0;
    loop {
        match watch.look(Instant::now()) {
            // Nudged or not: look.
            Look::At(at) => drop(runtime.until(at, watch.nudge.taken()).await),
            Look::WhenNudged => watch.nudge.taken().await,
            Look::Never => return,
        }
    }
}

/// A future and how long it may take, see [`Watch::limit`].
#[derive(Debug)]
pub(crate) struct Limited<'w, F> {
    future: F,
    watch: &'w Watch,
    within: Duration,
    seat: Option<Seat>,
}

impl<F: Future + Unpin> Future for Limited<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The future goes first: its first poll sends the command, and an answer that is there
        // counts even if it came late.
        if let Poll::Ready(output) = Pin::new(&mut self.future).poll(cx) {
            return Poll::Ready(Some(output));
        }
        let may_wait = match self.seat {
            Some(seat) => self.watch.may_wait(seat, cx.waker()),
            None => {
                self.seat = self.watch.enter(self.within, cx.waker());
                self.seat.is_some()
            }
        };
        if may_wait {
            Poll::Pending
        } else {
            Poll::Ready(None)
        }
    }
}

impl<F> Drop for Limited<'_, F> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.watch.leave(seat);
        }
    }
}
