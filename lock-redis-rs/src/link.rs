//! One connection, and what is known of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use lock_core::node::Operation;
use redis::Cmd;

use crate::convert::pack_undo;
use crate::locked;
use crate::request::Request;
use crate::rt::{Runtime, Task, after};
use crate::watch::Watch;
use crate::wire::Wire;

/// How many calls in a row may go unanswered before the connection counts as hung.
const SILENT_CALLS: u32 = 3;

/// How many calls may be in flight on one connection. Who calls more often than a server answers
/// gets an error, since nothing here may grow without bounds.
const IN_FLIGHT: usize = 8 * 1024;

/// How many calls may be given up without any reply in between before the connection is replaced.
const GIVEN_UP: usize = 1024;

/// The length of redis-rs's queue before the socket. It costs nothing until it is used, and it is
/// long enough that no call ever waits for a place: calls that wait could overtake each other.
pub(crate) const QUEUE: usize = 2 * (IN_FLIGHT + GIVEN_UP);

/// How long a replaced connection is kept, so that its bytes reach the server and the server's
/// replies do not hit a closed socket, which would make it drop the commands it has not run yet.
const LINGER: Duration = Duration::from_secs(5);

/// One connection to the server, until it breaks or is replaced.
pub(crate) struct Link {
    connection: Wire,
    runtime: Runtime,
    /// The watch of that runtime.
    watch: Arc<Watch>,
    /// Calls in a row that got no answer.
    silent: AtomicU32,
    /// Whether the server ever answered a call on this connection.
    proven: AtomicBool,
    /// How many calls were given up, ever.
    given_up: AtomicU64,
    /// How many of those are no longer in doubt.
    settled: AtomicU64,
    doubts: Mutex<Doubts>,
}

#[derive(Default)]
struct Doubts {
    /// Calls that were sent and given up before their answer: the release that belongs behind an
    /// acquire, `None` for any other call.
    undos: VecDeque<Option<Operation>>,
    /// The connection was replaced: undos are sent at once.
    replaced: bool,
    driver: Option<Task>,
}

/// What a call remembers of its connection from just before it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    given_up: u64,
    silent: u32,
}

impl Link {
    pub(crate) fn new(
        connection: Wire,
        runtime: Runtime,
        watch: Arc<Watch>,
        driver: Option<Task>,
    ) -> Self {
        Self {
            connection,
            runtime,
            watch,
            silent: AtomicU32::new(0),
            proven: AtomicBool::new(false),
            given_up: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            doubts: Mutex::new(Doubts {
                driver,
                ..Doubts::default()
            }),
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// It is sent at its first poll.
    pub(crate) fn request(&self, cmd: Arc<Cmd>) -> Request {
        Request::new(self.connection.clone(), cmd)
    }

    /// Whether the connection has as many calls in flight as it may have.
    pub(crate) fn is_full(self: &Arc<Self>) -> bool {
        // Each call holds the link, so this counts them without a counter of its own.
        Arc::strong_count(self) > IN_FLIGHT
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks {
            // Acquire: what was given up before this was sent before this call will be.
            given_up: self.given_up.load(Ordering::Acquire),
            silent: self.silent.load(Ordering::Relaxed),
        }
    }

    /// A reply came. Returns whether it was the connection's first.
    pub(crate) fn answered(&self, marks: Marks) -> bool {
        if self.silent.load(Ordering::Relaxed) != 0 {
            self.silent.store(0, Ordering::Relaxed);
        }
        if self.settled.load(Ordering::Relaxed) < marks.given_up {
            self.settle(marks.given_up);
        }
        !self.is_proven() && !self.proven.swap(true, Ordering::Relaxed)
    }

    /// Replies come in order: who was sent before a call that is answered has had its turn, and a
    /// release on any connection will come behind it.
    #[cold]
    fn settle(&self, given_up: u64) {
        let mut doubts = locked(&self.doubts);
        let settled = self.settled.load(Ordering::Relaxed);
        let done = usize::try_from(given_up.saturating_sub(settled)).unwrap_or(usize::MAX);
        let done = done.min(doubts.undos.len());
        doubts.undos.drain(..done);
        self.settled.store(settled + done as u64, Ordering::Relaxed);
    }

    /// A call that was sent ends without an answer: its time is over or its caller is gone.
    /// Returns whether the connection should be replaced.
    pub(crate) fn unanswered(&self, operation: &Operation, marks: Marks, timed_out: bool) -> bool {
        let undo = operation.undo();
        let mut doubts = locked(&self.doubts);
        if doubts.replaced {
            if let Some(undo) = undo {
                self.send_undo(undo);
            }
            return false;
        }
        doubts.undos.push_back(undo);
        let many = doubts.undos.len() >= GIVEN_UP;
        self.given_up.fetch_add(1, Ordering::Release);
        drop(doubts);
        many || (timed_out && self.is_silent(marks))
    }

    /// Counts a timeout, unless another one was counted since the call was sent: many calls that
    /// time out in one stall of the server are one sign of a hung connection, not many.
    fn is_silent(&self, marks: Marks) -> bool {
        let counted = marks.silent + 1;
        self.silent
            .compare_exchange(marks.silent, counted, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
            && counted >= SILENT_CALLS
    }

    /// Sends the releases that belong behind the doubtful acquires, on this connection, where
    /// they cannot overtake them; then lets the connection go, though not at once.
    ///
    /// Returns the task that holds on to it, unless there is one already.
    pub(crate) fn replace(self: &Arc<Self>) -> Option<Task> {
        let mut doubts = locked(&self.doubts);
        if doubts.replaced {
            return None;
        }
        doubts.replaced = true;
        for undo in std::mem::take(&mut doubts.undos).into_iter().flatten() {
            self.send_undo(undo);
        }
        let driver = doubts.driver.take().map(Driver);
        drop(doubts);
        let link = Arc::clone(self);
        Some(self.runtime.spawn(async move {
            let end = after(LINGER);
            match driver {
                // Whether the driver ended by itself or is cut off, this was its last chance.
                Some(mut driver) => drop(link.runtime.until(end, &mut driver.0).await),
                None => link.runtime.sleep_until(end).await,
            }
            drop(link);
        }))
    }

    fn send_undo(&self, undo: Operation) {
        let request = self.request(Arc::new(pack_undo(undo)));
        // It is in redis-rs's queue after one poll, or the connection is gone and with it the
        // only place where an undo is of use; the key's ttl remains.
        drop(request.now_or_never());
    }
}

/// The task that carries bytes between the socket and redis-rs's queue.
struct Driver(Task);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("silent", &self.silent)
            .field("proven", &self.proven)
            .finish_non_exhaustive()
    }
}
