//! Calls under way, in the order in which they are sent.
//!
//! They are polled where they were made or on another core, and what one thread allocates and another
//! frees is dear to both. So the memory of calls that have ended stays together, and waits for the next
//! ones on the thread where they ended.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::LocalKey;

use futures::task::AtomicWaker;

use super::place::{Place, Work};

/// For how many attempts a thread keeps the memory of their calls, and of how many calls each.
const KEPT: usize = 64;
const KEPT_SEATS: usize = 16;

/// Work whose memory is used again.
pub(crate) trait Recycled: Work + Sized {
    /// What calls that have ended on this thread left behind.
    fn idle() -> &'static LocalKey<Idle<Self>>;
}

pub(crate) type Idle<C> = RefCell<Vec<Box<Memory<C>>>>;

/// Calls that are polled in turn, first those that were added first (rule N12). So what a node
/// answers is heard in order, too.
///
/// Only those that asked for it are polled again: a poll goes through a whole client, and the
/// answer of one node would cost a poll at each. Nor are they polled because somebody else waits for
/// them now. And a waiter who can do nothing with fewer than three answers, say, is not woken before
/// three of them ask, unless they turn out to be [eager](Self::be_eager).
///
/// Who waits holds these, and these hold his waker: so a task that waits for a client that never
/// wakes anybody lives as long as the process.
pub(crate) struct Pending<C: Recycled> {
    /// None while there has been no call.
    memory: Option<Box<Memory<C>>>,
}

pub(crate) struct Memory<C: Recycled> {
    calls: Vec<Seat<C>>,
    /// Those of calls that have ended.
    free: Vec<Seat<C>>,
    waiter: Arc<Waiter>,
    /// The waiter is woken by each, however many are enough.
    is_eager: bool,
}

/// Who waits for calls.
#[derive(Default)]
struct Waiter {
    waker: AtomicWaker,
    /// So many calls must ask to be polled before he is woken.
    enough: AtomicIsize,
}

/// Where a call stays until its end.
struct Seat<C: Recycled> {
    place: Place<C>,
    was_polled: bool,
    /// What the call wakes.
    waker: Waker,
    /// The inside of that waker.
    bell: Arc<Bell>,
}

struct Bell {
    /// Whether the call asked to be polled again. A waker of a call that has ended may say so for the
    /// one that has its seat now, which is polled in vain then.
    is_rung: AtomicBool,
    waiter: Arc<Waiter>,
}

impl<C: Recycled> Pending<C> {
    /// All of them, for somebody else to wait for. This one is not waited for any more.
    pub(crate) fn take(&mut self) -> Self {
        let taken = mem::take(self);
        if let Some(memory) = &taken.memory {
            memory.waiter.go();
        }
        taken
    }

    pub(crate) fn push(&mut self, call: C) {
        let memory = self.memory.get_or_insert_with(Memory::idle);
        let mut seat = memory
            .free
            .pop()
            .unwrap_or_else(|| Seat::at(&memory.waiter));
        seat.was_polled = false;
        seat.place.fill(call);
        memory.calls.push(seat);
    }

    /// From the next poll on the waiter is woken by each that asks for it. They turn so by themselves
    /// when one of them takes more polls than the one that brings its answer.
    pub(crate) fn be_eager(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.is_eager = true;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| memory.calls.len())
    }

    /// What the next one that is ready brings, or `None` if none is left. If none is ready, the waiter
    /// is woken when `enough` of them ask to be polled: each may be ready then.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        enough: usize,
    ) -> Poll<Option<C::Output>> {
        match &mut self.memory {
            Some(memory) => memory.poll_next(cx, enough),
            None => Poll::Ready(None),
        }
    }

    /// The same, waiting for it. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<C::Output> {
        poll_fn(|cx| self.poll_next(cx, 1)).await
    }
}

impl<C: Recycled> Default for Pending<C> {
    fn default() -> Self {
        Self { memory: None }
    }
}

impl<C: Recycled> Drop for Pending<C> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.waiter.go();
            if memory.calls.is_empty() {
                memory.keep();
            }
        }
    }
}

impl<C: Recycled> Memory<C> {
    /// Some that waits on this thread, or else new one.
    fn idle() -> Box<Self> {
        // A thread that is about to end has none.
        let idle = C::idle().try_with(|idle| idle.borrow_mut().pop());
        idle.ok().flatten().unwrap_or_else(|| {
            Box::new(Self {
                calls: Vec::new(),
                free: Vec::new(),
                waiter: Arc::default(),
                is_eager: false,
            })
        })
    }

    /// Keeps it for the next calls on this thread.
    fn keep(mut self: Box<Self>) {
        self.is_eager = false;
        self.free.truncate(KEPT_SEATS);
        let mut memory = Some(self);
        let keep = |idle: &Idle<C>| {
            let mut idle = idle.borrow_mut();
            if idle.len() < KEPT {
                idle.extend(memory.take());
            }
        };
        C::idle().try_with(keep).ok();
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, enough: usize) -> Poll<Option<C::Output>> {
        let enough = if self.is_eager { 1 } else { enough };
        // Before it is looked who has rung: who rings from here on counts for this waiter.
        self.waiter.wait(cx.waker(), enough);
        for (index, seat) in self.calls.iter_mut().enumerate() {
            let was_polled = seat.was_polled;
            if !seat.asks_to_be_polled() {
                continue;
            }
            let poll = catch_unwind(AssertUnwindSafe(|| seat.poll()));
            if let Ok(Poll::Pending) = poll {
                self.is_eager |= was_polled || seat.bell.is_rung();
                continue;
            }
            // In order: those behind may not have been polled yet. And who has panicked would never
            // ring again.
            let mut seat = self.calls.remove(index);
            return match poll {
                Ok(poll) => {
                    seat.place.empty();
                    self.free.push(seat);
                    poll.map(Some)
                }
                Err(panic) => resume_unwind(panic),
            };
        }
        if self.calls.is_empty() {
            return Poll::Ready(None);
        }
        if self.is_eager && enough > 1 {
            // Who has rung by now may have been too few.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<C: Recycled> Seat<C> {
    fn at(waiter: &Arc<Waiter>) -> Self {
        let bell = Arc::new(Bell {
            is_rung: AtomicBool::new(false),
            waiter: Arc::clone(waiter),
        });
        Self {
            place: Place::new(),
            was_polled: false,
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        }
    }

    /// Whether it has never been polled, or asks for it since.
    fn asks_to_be_polled(&mut self) -> bool {
        let was_polled = mem::replace(&mut self.was_polled, true);
        self.bell.take() || !was_polled
    }

    fn poll(&mut self) -> Poll<C::Output> {
        self.place.poll(&mut Context::from_waker(&self.waker))
    }
}

impl Waiter {
    fn wait(&self, waker: &Waker, enough: usize) {
        self.waker.register(waker);
        let enough = isize::try_from(enough).unwrap_or(isize::MAX);
        // Not stored: a swap sees what those did who were counted before it, so that whoever is not
        // counted from here on is found to have rung.
        self.enough.swap(enough, Ordering::AcqRel);
    }

    /// Nobody waits any more, so nobody is held on to.
    fn go(&self) {
        drop(self.waker.take());
    }

    /// One more call asks to be polled.
    fn count(&self) {
        if self.enough.fetch_sub(1, Ordering::AcqRel) <= 1 {
            self.waker.wake();
        }
    }
}

impl Bell {
    fn is_rung(&self) -> bool {
        self.is_rung.load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        // Most have not rung: they are looked at, not written to.
        self.is_rung() && self.is_rung.swap(false, Ordering::Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.waiter.count();
        }
    }
}

impl<C: Recycled> Extend<C> for Pending<C> {
    fn extend<I: IntoIterator<Item = C>>(&mut self, calls: I) {
        calls.into_iter().for_each(|call| self.push(call));
    }
}

impl<C: Recycled> fmt::Debug for Pending<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.len())
    }
}

#[cfg(test)]
mod tests;
