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
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::LocalKey;

use futures::task::AtomicWaker;

use super::place::{Place, Work};

/// For how many attempts a thread keeps the memory of their calls.
const KEPT: usize = 64;

/// Work whose memory is used again.
pub(crate) trait Call: Work + Sized {
    /// What calls that have ended on this thread left behind.
    fn idle() -> &'static LocalKey<Idle<Self>>;
}

pub(crate) type Idle<C> = RefCell<Vec<Box<Memory<C>>>>;

/// Calls that are polled in turn, first those that were added first (rule N12). So what a node
/// answers is heard in order, too.
///
/// Only those that asked for it are polled again: a poll goes through a whole client, and the
/// answer of one node would cost a poll at each. Nor are they polled because somebody else waits for
/// them now.
///
/// Who waits holds these, and these hold his waker: so a task that waits for a client that never
/// wakes anybody lives as long as the process.
pub(crate) struct Pending<C: Call> {
    /// None while there has been no call.
    memory: Option<Box<Memory<C>>>,
}

pub(crate) struct Memory<C: Call> {
    calls: Vec<Seat<C>>,
    /// Those of calls that have ended.
    free: Vec<Seat<C>>,
    waiter: Arc<AtomicWaker>,
}

/// Where a call stays until its end.
struct Seat<C: Call> {
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
    waiter: Arc<AtomicWaker>,
}

impl<C: Call> Pending<C> {
    /// All of them, for somebody else to wait for. This one is not waited for any more.
    pub(crate) fn take(&mut self) -> Self {
        let taken = mem::take(self);
        if let Some(memory) = &taken.memory {
            drop(memory.waiter.take());
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

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| memory.calls.len())
    }

    /// What the next one that is ready brings, or `None` if none is left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<C::Output>> {
        match &mut self.memory {
            Some(memory) => memory.poll_next(cx),
            None => Poll::Ready(None),
        }
    }

    /// The same, waiting for it. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<C::Output> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl<C: Call> Default for Pending<C> {
    fn default() -> Self {
        Self { memory: None }
    }
}

impl<C: Call> Drop for Pending<C> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take()
            && memory.calls.is_empty()
        {
            memory.wait_for_others();
        }
    }
}

impl<C: Call> Memory<C> {
    /// Some that waits on this thread, or else new one.
    fn idle() -> Box<Self> {
        // A thread that is about to end has none.
        let idle = C::idle().try_with(|idle| idle.borrow_mut().pop());
        idle.ok().flatten().unwrap_or_else(|| {
            Box::new(Self {
                calls: Vec::new(),
                free: Vec::new(),
                waiter: Arc::default(),
            })
        })
    }

    fn wait_for_others(self: Box<Self>) {
        // Whoever waited last must not live as long as this does.
        drop(self.waiter.take());
        let mut memory = Some(self);
        let keep = |idle: &Idle<C>| {
            let mut idle = idle.borrow_mut();
            if idle.len() < KEPT {
                idle.extend(memory.take());
            }
        };
        C::idle().try_with(keep).ok();
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<C::Output>> {
        // Before it is looked who has rung: who rings from here on wakes this waiter.
        self.waiter.register(cx.waker());
        for (index, seat) in self.calls.iter_mut().enumerate() {
            let poll = catch_unwind(AssertUnwindSafe(|| seat.poll()));
            if let Ok(Poll::Pending) = poll {
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
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

impl<C: Call> Seat<C> {
    fn at(waiter: &Arc<AtomicWaker>) -> Self {
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

    /// Polls the call for the first time, or if it asked for it.
    fn poll(&mut self) -> Poll<C::Output> {
        let was_polled = mem::replace(&mut self.was_polled, true);
        if !self.bell.take() && was_polled {
            return Poll::Pending;
        }
        self.place.poll(&mut Context::from_waker(&self.waker))
    }
}

impl Bell {
    fn take(&self) -> bool {
        // Most have not rung: they are looked at, not written to.
        self.is_rung.load(Ordering::Relaxed) && self.is_rung.swap(false, Ordering::Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Ordering::Release);
        self.waiter.wake();
    }
}

impl<C: Call> Extend<C> for Pending<C> {
    fn extend<I: IntoIterator<Item = C>>(&mut self, calls: I) {
        calls.into_iter().for_each(|call| self.push(call));
    }
}

impl<C: Call> fmt::Debug for Pending<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.len())
    }
}

#[cfg(test)]
mod tests;
