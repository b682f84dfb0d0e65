//! One connection, and what is known of it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::Resp3Frame;
use fred::types::config::Options;
use futures::FutureExt;
use futures::future::{Either, select};
use lock_core::node::Operation;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::convert::{Packed, pack_undo};
use crate::dial::Session;
use crate::locked;

/// How many calls in a row may go unanswered before the connection counts as hung.
const SILENT_CALLS: u32 = 3;

/// How many calls may be in flight on one connection. Who calls more often than a server answers
/// gets an error, since nothing here may grow without bounds: fred's own queue would.
const IN_FLIGHT: usize = 8 * 1024;

/// How many calls may be given up without any reply in between before the connection is replaced.
const GIVEN_UP: usize = 1024;

/// How long a replaced connection is kept, so that its bytes reach the server and the server's
/// replies do not hit a closed socket, which would make it drop the commands it has not run yet.
const LINGER: Duration = Duration::from_secs(5);

/// One connection to the server, until it breaks or is replaced.
pub(crate) struct Link {
    session: Session,
    runtime: Handle,
    /// Calls in a row that got no answer.
    silent: AtomicU32,
    /// Whether the server ever answered a call on this connection.
    proven: AtomicBool,
    /// How many calls were given up, ever.
    given_up: AtomicU64,
    /// How many of those are no longer in doubt.
    settled: AtomicU64,
    doubts: Mutex<Doubts>,
    /// Whether fred's task has ended, and who is to know it.
    ended: AtomicBool,
    end: Notify,
}

#[derive(Default)]
struct Doubts {
    /// Calls that were sent and given up before their answer: the release that belongs behind an
    /// acquire, `None` for any other call.
    undos: VecDeque<Option<Operation>>,
    /// The connection was replaced: undos are sent at once.
    replaced: bool,
}

/// What a call remembers of its connection from just before it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    given_up: u64,
    silent: u32,
}

impl Link {
    pub(crate) fn new(session: Session, runtime: Handle) -> Self {
        Self {
            session,
            runtime,
            silent: AtomicU32::new(0),
            proven: AtomicBool::new(false),
            given_up: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            doubts: Mutex::default(),
            ended: AtomicBool::new(false),
            end: Notify::new(),
        }
    }

    /// The request, which is in fred's queue after its first poll, and which ends with an error
    /// of the kind `Timeout` after `within`.
    ///
    /// It may be dropped at any time: fred keeps what it needs to know whose reply comes when.
    pub(crate) fn request(
        &self,
        packed: &Packed,
        within: Duration,
    ) -> impl Future<Output = Result<Resp3Frame, Error>> + Send + use<> {
        let options = Options {
            // Zero would be no limit at all.
            timeout: Some(within.max(Duration::from_nanos(1))),
            ..Options::default()
        };
        let client = self.session.client().with_options(&options);
        let (command, args) = (packed.command.clone(), packed.args.clone());
        async move { client.custom_raw(command, args).await }
    }

    /// Waits for the answer to a request, which has been polled before or is sent now.
    ///
    /// fred's queue outlives fred's task. A command that comes to it just then would wait there
    /// until its time is over.
    pub(crate) async fn answer(
        &self,
        mut request: Pin<&mut (impl Future<Output = Result<Resp3Frame, Error>> + ?Sized)>,
    ) -> Result<Resp3Frame, Error> {
        let end = self.end.notified();
        let ended = pin!(async {
            // Read after the request is in the queue and the notification on its way.
            if !self.ended.load(Ordering::Acquire) {
                end.await;
            }
        });
        if let Either::Left((answer, _)) = select(request.as_mut(), ended).await {
            return answer;
        }
        // fred may have answered it, if only with an error, before it ended.
        let answer = request.now_or_never();
        answer.unwrap_or_else(|| Err(Error::new(ErrorKind::IO, "Connection closed.")))
    }

    /// fred's task has ended: no call that is under way gets an answer any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.end.notify_waiters();
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
    pub(crate) fn replace(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let mut doubts = locked(&self.doubts);
        if doubts.replaced {
            return None;
        }
        doubts.replaced = true;
        for undo in std::mem::take(&mut doubts.undos).into_iter().flatten() {
            self.send_undo(undo);
        }
        drop(doubts);
        let link = Arc::clone(self);
        Some(self.runtime.spawn(async move {
            sleep(LINGER).await;
            drop(link);
        }))
    }

    fn send_undo(&self, undo: Operation) {
        let Packed { command, args } = pack_undo(undo);
        let request = self.session.client().custom_raw(command, args);
        // It is in fred's queue after one poll, or the connection is gone and with it the only
        // place where an undo is of use; the key's ttl remains.
        drop(request.now_or_never());
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
