//! One connection in use, and the task that moves its bytes and watches its deadlines.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;

use super::calls::Calls;
use super::client::{Client, Connection, Opened};
use super::doubts::{Doubts, Verdict};
use super::{MAX_IN_FLIGHT, wake_all};
use crate::node::{Command, NodeError, NodeErrorKind};
use crate::runtime::{AmbientId, BoxFuture, Runtime};
use crate::sync::locked;

/// How long a replaced connection is kept at most, so that its bytes reach the server and the server's
/// replies do not hit a closed socket, which would make it drop the commands it has not run yet.
const LINGER: Duration = Duration::from_secs(5);

/// How long commands may wait for the driver. It stands still when its runtime is blocked or nobody runs
/// it. What it would write then could undo a key that was set again meanwhile over another connection: 20 s
/// after a doubtful acquire nothing of it may arrive any more (rule N12), and the kernel may take the rest.
const STANDSTILL: Duration = Duration::from_secs(10);

/// How often the driver is polled at least while commands may wait for it.
const LOOK: Duration = Duration::from_secs(5);

/// The keeper of connections, as one of them sees it.
pub(super) trait Owner<C: Client>: Send + Sync {
    /// A connection gave its first reply: the server works.
    fn proven(&self);

    /// The connection broke. The next call connects anew, at once if the server ever answered on it.
    fn lost(&self, link: &Arc<Link<C>>, why: &NodeError, is_proven: bool);

    /// The server says that it is the wrong one: another connection is opened beside this one.
    fn misdirected(self: Arc<Self>);

    /// The connection hangs, and its doubtful acquires have their releases behind them: the next call
    /// connects anew.
    fn replaced(&self, link: &Arc<Link<C>>);
}

/// One connection, from the end of its handshake until it breaks or is let go.
pub(super) struct Link<C: Client> {
    connection: C::Connection,
    owner: Weak<dyn Owner<C>>,
    /// Where the task of the connection runs.
    runtime: Arc<dyn Runtime>,
    /// `None` if callers on other runtimes rely on this one too.
    home: Option<AmbientId>,
    state: Mutex<State>,
    notify: Notify,
}

#[derive(Default)]
struct State {
    calls: Calls,
    doubts: Doubts,
    /// Since when the driver has not been polled while it may have had something to write.
    waiting_since: Option<Duration>,
    /// Releases that were sent behind doubtful acquires, for the task to keep.
    undos: Vec<BoxFuture<'static, ()>>,
    /// Why no answer will come any more.
    end: Option<NodeError>,
}

impl<C: Client> Link<C> {
    /// A link and its task, which is to be polled from now on.
    pub(super) fn new(
        owner: Weak<dyn Owner<C>>,
        runtime: Arc<dyn Runtime>,
        home: Option<AmbientId>,
        opened: Opened<C::Connection>,
    ) -> (Arc<Self>, LinkTask<C>) {
        let link = Arc::new(Self {
            connection: opened.connection,
            owner,
            runtime,
            home,
            state: Mutex::default(),
            notify: Notify::default(),
        });
        let task = LinkTask {
            link: Arc::clone(&link),
            driver: opened.driver,
            timer: None,
            undos: FuturesUnordered::new(),
            has_undone: false,
            lingers_until: None,
        };
        (link, task)
    }

    pub(super) fn connection(&self) -> &C::Connection {
        &self.connection
    }

    pub(super) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// Whether the caller runs where the connection does, so that its deadline is seen to there.
    pub(super) fn is_home(&self) -> bool {
        self.home.is_none_or(AmbientId::is_current)
    }

    /// Returns whether calls can be sent on it, now and later.
    pub(super) fn is_usable(&self) -> bool {
        let state = locked(&self.state);
        state.end.is_none() && !state.doubts.is_replaced()
    }

    /// Returns whether no call can be sent on it any more.
    pub(super) fn has_ended(&self) -> bool {
        locked(&self.state).end.is_some()
    }

    /// Registers a call that is about to be sent, or says why it may not be.
    pub(super) fn enter(&self, within: Duration, waker: &Waker) -> Result<usize, NodeError> {
        let waker = waker.clone();
        let now = self.runtime.now();
        let mut state = locked(&self.state);
        if let Some(end) = &state.end {
            return Err(NodeError::not_sent("the connection just broke").with_source(end.clone()));
        }
        if state.calls.in_flight() >= MAX_IN_FLIGHT {
            return Err(NodeError::not_sent("too many calls in flight"));
        }
        let marks = state.doubts.marks();
        let (slot, is_earlier) = state.calls.enter(now, within, waker, marks);
        state.waiting_since.get_or_insert(now);
        drop(state);
        if is_earlier {
            self.notify.give();
        }
        Ok(slot)
    }

    /// Whether the call may go on waiting, with its newest waker. Ready with `None` if it is overdue,
    /// and with an error if the connection has ended.
    pub(super) fn wait(&self, slot: usize, newest: &Waker) -> Poll<Option<NodeError>> {
        let mut state = locked(&self.state);
        if let Some(end) = &state.end {
            return Poll::Ready(Some(end.clone()));
        }
        let Some(waker) = state.calls.waker(slot) else {
            return Poll::Ready(None);
        };
        if !waker.will_wake(newest) {
            let replaced = std::mem::replace(waker, newest.clone());
            // It is foreign code: not dropped under the lock.
            drop(state);
            drop(replaced);
        }
        Poll::Pending
    }

    /// The server answered the call.
    pub(super) fn answered(&self, slot: usize) {
        let mut state = locked(&self.state);
        let (marks, waker) = state.calls.leave(slot);
        let is_first = state.doubts.answered(marks);
        let lingers = state.doubts.is_replaced();
        if state.calls.in_flight() == 0 && state.doubts.is_settled() {
            state.waiting_since = None;
        }
        drop(state);
        drop(waker);
        if is_first && let Some(owner) = self.owner.upgrade() {
            owner.proven();
        }
        if lingers {
            self.notify.give();
        }
    }

    /// The server answered that it is the wrong one.
    #[cold]
    pub(super) fn misdirected(&self) {
        // What comes late says nothing about the connection that took its place.
        if !self.is_usable() {
            return;
        }
        if let Some(owner) = self.owner.upgrade() {
            owner.misdirected();
        }
    }

    /// Another connection takes the place of this one.
    #[cold]
    pub(super) fn retire(self: &Arc<Self>) {
        let undos = locked(&self.state).doubts.replace();
        self.replace(undos);
        self.notify.give();
    }

    /// The call ends without an answer: its time is over, or its caller is gone.
    #[cold]
    pub(super) fn given_up(self: &Arc<Self>, slot: usize, command: &Command, is_timed_out: bool) {
        let undo = command.undo();
        let now = self.runtime.now();
        let mut state = locked(&self.state);
        let marks = state.calls.marks(slot);
        let verdict = match state.end {
            // Where the connection broke, an undo would not arrive either.
            Some(_) => Verdict::Keep,
            None => state.doubts.given_up(undo, marks, is_timed_out, now),
        };
        drop(state);
        match verdict {
            Verdict::Keep => {}
            Verdict::Undo(undo) => self.send_undo(undo),
            Verdict::Replace(undos) => self.replace(undos),
        }
        // Not before, since a replaced connection without calls in flight may end.
        self.leave(slot);
    }

    /// The call is over, and its end says nothing about the connection.
    #[cold]
    pub(super) fn leave(&self, slot: usize) {
        let left = locked(&self.state).calls.leave(slot);
        // Its waker is foreign code: not dropped under the lock.
        drop(left);
        self.notify.give();
    }

    /// A call learned that the connection is of no more use.
    #[cold]
    pub(super) fn broke(self: &Arc<Self>, slot: usize, why: &NodeError) {
        self.leave(slot);
        self.end(why.clone());
    }

    /// Sends these releases, and lets the next call connect anew.
    fn replace(self: &Arc<Self>, undos: Vec<Command>) {
        undos.into_iter().for_each(|undo| self.send_undo(undo));
        // Only now, so that no call takes a new connection before this one has its undos.
        if let Some(owner) = self.owner.upgrade() {
            owner.replaced(self);
        }
    }

    /// Replaces the connection for the sake of an acquire that has been in doubt for too long.
    fn replace_if_due(self: &Arc<Self>, now: Duration) {
        let mut state = locked(&self.state);
        let is_due = state.doubts.due().is_some_and(|due| due <= now);
        let undos = is_due.then(|| state.doubts.replace());
        drop(state);
        if let Some(undos) = undos {
            self.replace(undos);
        }
    }

    /// To be called before the driver is polled. Returns whether commands have waited for that so long
    /// that it must not be: they would be written too late.
    fn stood_still(&self, has_undos: bool, now: Duration) -> bool {
        let mut state = locked(&self.state);
        // A poll need not write everything: what is answered has been written for certain.
        let is_waiting = has_undos || !state.undos.is_empty() || state.calls.in_flight() > 0;
        let waiting = std::mem::replace(&mut state.waiting_since, is_waiting.then_some(now));
        let since = [waiting, state.doubts.oldest()].into_iter().flatten().min();
        if mutant!(StalledDriversWrite) {
            return false;
        }
        since.is_some_and(|since| now.saturating_sub(since) >= STANDSTILL)
    }

    fn send_undo(&self, undo: Command) {
        let now = self.runtime.now();
        locked(&self.state).waiting_since.get_or_insert(now);
        let request = self.connection.send(&undo);
        // Its answer says nothing that anybody wants to know: should the release fail, the key's ttl
        // remains.
        let mut request: BoxFuture<'static, ()> = Box::pin(async { drop(request.await) });
        // The first poll sends.
        let poll = request
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if poll.is_pending() {
            locked(&self.state).undos.push(request);
        }
    }

    /// The connection broke or its runtime ended.
    pub(super) fn end(self: &Arc<Self>, why: NodeError) {
        let why = match why.kind() {
            NodeErrorKind::Connection => why,
            _ => NodeError::connection("the connection broke").with_source(why),
        };
        let is_proven = locked(&self.state).doubts.is_proven();
        // First of all, so that whoever is told finds that a new connection is needed.
        if let Some(owner) = self.owner.upgrade() {
            owner.lost(self, &why, is_proven);
        }
        self.close(why);
    }

    /// Tells all calls in flight that no answer will come any more, and lets the task end.
    pub(super) fn close(&self, why: NodeError) {
        let mut state = locked(&self.state);
        if state.end.is_some() {
            return;
        }
        state.end = Some(why);
        let waiting = state.calls.end();
        drop(state);
        wake_all(waiting);
        self.notify.give();
    }
}

/// What a connection needs to live: it moves the bytes, and wakes calls that are overdue.
pub(super) struct LinkTask<C: Client> {
    link: Arc<Link<C>>,
    driver: BoxFuture<'static, NodeError>,
    timer: Option<(Duration, BoxFuture<'static, ()>)>,
    /// Releases behind doubtful acquires: a client may leave out what nobody waits for.
    undos: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Whether there were any. Their answers tell that all before them has had its turn.
    has_undone: bool,
    /// When a replaced connection is let go.
    lingers_until: Option<Duration>,
}

impl<C: Client> Future for LinkTask<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        let now = task.link.runtime.now();
        if task.link.stood_still(!task.undos.is_empty(), now) {
            let why = NodeError::connection("the connection stood still for too long");
            task.link.end(why);
            return Poll::Ready(());
        }
        if let Poll::Ready(why) = task.driver.as_mut().poll(cx) {
            task.link.end(why);
            return Poll::Ready(());
        }
        task.link.notify.register(cx.waker());
        loop {
            let mut is_told = task.link.notify.take();
            while let Poll::Ready(Some(())) = task.undos.poll_next_unpin(cx) {
                is_told = true;
            }
            // A timer may be early by what its clock rounds away.
            let mut due = Duration::ZERO;
            if let Some((at, timer)) = &mut task.timer
                && timer.as_mut().poll(cx).is_ready()
            {
                due = *at;
                is_told = true;
            }
            if !is_told {
                return Poll::Pending;
            }
            let now = task.link.runtime.now().max(due);
            if !task.look(now) {
                return Poll::Ready(());
            }
        }
    }
}

impl<C: Client> LinkTask<C> {
    /// Wakes what is overdue, and sets the timer for the next look; `false` if there is nothing left
    /// to do.
    fn look(&mut self, now: Duration) -> bool {
        self.link.replace_if_due(now);
        let mut state = locked(&self.link.state);
        if state.end.is_some() {
            return false;
        }
        let (overdue, next) = state.calls.look(now);
        let next = next.map(|at| at.min(now.saturating_add(LOOK)));
        let mut due = state.doubts.due();
        let is_replaced = state.doubts.is_replaced();
        let was_settled = state.doubts.was_settled();
        let is_idle = state.calls.in_flight() == 0;
        self.has_undone |= !state.undos.is_empty();
        self.undos.extend(state.undos.drain(..));
        drop(state);
        wake_all(overdue);
        if is_replaced {
            let until = self.lingers_until.get_or_insert(now.saturating_add(LINGER));
            let is_done = (was_settled || self.has_undone) && self.undos.is_empty();
            if now >= *until || (is_idle && is_done) {
                return false;
            }
            due = Some(*until);
        }
        let next = next.into_iter().chain(due).min();
        self.timer = next.map(|at| (at, self.link.runtime.sleep(at.saturating_sub(now))));
        true
    }
}

impl<C: Client> Drop for LinkTask<C> {
    fn drop(&mut self) {
        // Nothing new after another end.
        let why = NodeError::connection("the connection is gone, or its runtime has ended");
        self.link.end(why);
    }
}

/// Wakes the task of a connection. What is told while it is awake is kept for its next poll.
#[derive(Default)]
struct Notify {
    is_told: AtomicBool,
    task: AtomicWaker,
}

impl Notify {
    fn give(&self) {
        self.is_told.store(true, Ordering::Release);
        self.task.wake();
    }

    /// To be called before a [`take`](Self::take), so that nothing is missed between the two.
    fn register(&self, waker: &Waker) {
        self.task.register(waker);
    }

    fn take(&self) -> bool {
        self.is_told.swap(false, Ordering::Acquire)
    }
}
