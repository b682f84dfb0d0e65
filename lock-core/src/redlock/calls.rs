//! Calls to nodes: one command each, and the answer that comes back.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;

use super::acquisition::Acquisition;
use super::node::{Gate, LockNode, Nodes};
use super::protocol::{AcquireAnswer, Answered, KeyAnswer, confirmed, inspected};
use crate::inspection::LockKey;
use crate::node::{Command, NodeError, Operation, Reply};
use crate::runtime::{BoxFuture, Runtime};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Acquire,
    /// Raises the fencing counter of a node that has granted less than the token.
    Confirm,
    /// Sets the key again at a node that forgot it.
    Heal,
    Extend,
    Release,
    /// Releases the old token of this number, where it may stand still.
    ReleaseOld,
    /// Asks a node that has refused the lock which one it has.
    Inspect,
    /// Asks about a key, or about many locks at once. It changes nothing for the lock it belongs to, if any.
    Other,
}

/// A call to be made, as long as it takes.
pub(crate) struct Call {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) node: usize,
    pub(crate) purpose: Purpose,
    /// The lock that the call is for, if it is for a single one.
    pub(crate) lock: Option<Arc<Acquisition>>,
    /// Tells the calls of one operation to one node apart.
    pub(crate) part: usize,
    pub(crate) command: Command,
    pub(crate) within: Duration,
    /// It finds out how a suspect node is.
    pub(crate) probe: Option<Probe>,
    /// When it began, if the node was not fine then.
    pub(crate) watch: Option<Box<Watch>>,
}

/// A call that came to its end.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) node: usize,
    pub(crate) purpose: Purpose,
    pub(crate) lock: Option<Arc<Acquisition>>,
    pub(crate) part: usize,
    pub(crate) result: Result<Reply, NodeError>,
    command: Command,
}

impl Call {
    /// A call for one lock. A node may take the time that it has for a command of that lock.
    pub(crate) fn of_lock(
        lock: &Arc<Acquisition>,
        node: usize,
        purpose: Purpose,
        command: Command,
    ) -> Self {
        Self {
            within: lock.within(node),
            lock: Some(Arc::clone(lock)),
            ..Self::other(&lock.nodes, node, command, Duration::ZERO).with_purpose(purpose)
        }
    }

    /// A call that is for no single lock.
    pub(crate) fn other(
        nodes: &Arc<Nodes>,
        node: usize,
        command: Command,
        within: Duration,
    ) -> Self {
        Self {
            nodes: Arc::clone(nodes),
            node,
            purpose: Purpose::Other,
            lock: None,
            part: 0,
            command,
            within,
            probe: None,
            watch: None,
        }
    }

    /// The time is taken only where it matters.
    fn watch(&self) -> Option<Box<Watch>> {
        if self.nodes.all[self.node].is_fine() {
            return None;
        }
        let settings = &self.nodes.settings;
        let (runtime, node_timeout) = match &self.lock {
            Some(lock) => (Arc::clone(&lock.runtime), lock.timing.node_timeout),
            None => (settings.runtime(), settings.node_timeout()),
        };
        Some(Box::new(Watch {
            since: runtime.now(),
            runtime,
            allowed: self.nodes.within(self.node, node_timeout),
        }))
    }

    fn with_purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }
}

/// A call that has no answer yet, from the moment when it was added. If its runtime ends, a release is owed,
/// though it may never have been sent: the next use of the lock sends it.
struct Unanswered(Call);

impl Unanswered {
    async fn run(mut self) -> Done {
        self.0.watch = self.0.watch();
        let call = &self.0;
        let result = call
            .nodes
            .execute(call.node, &call.command, call.within, call);
        let result = result.await;
        let call = &mut self.0;
        drop(call.probe.take());
        Done {
            node: call.node,
            purpose: call.purpose,
            // Without it, nothing is owed any more.
            lock: call.lock.take(),
            part: call.part,
            result,
            command: call.command.clone(),
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let call = &self.0;
        let Some(lock) = &call.lock else { return };
        let token = match call.purpose {
            Purpose::Release => lock.token,
            Purpose::ReleaseOld => lock.old[call.part],
            _ => return,
        };
        let until = lock.ledger().not_released(call.node, lock.runtime.now());
        call.nodes.owe(call.node, lock.debt(token, until));
        call.nodes.leave_work();
    }
}

/// The beginning of a call to a node that is not fine.
pub(crate) struct Watch {
    runtime: Arc<dyn Runtime>,
    since: Duration,
    /// How long the node may take for an answer that is in time.
    allowed: Duration,
}

/// What sets or extends a key, or confirms a token, is not sent when its lock is over, as it would run behind its own
/// release. A release always is.
impl Gate for Call {
    fn opens(&self) -> bool {
        match (&self.lock, self.purpose) {
            (Some(lock), Purpose::Acquire | Purpose::Heal) => lock.ledger().begins(self.node),
            (Some(lock), Purpose::Extend | Purpose::Confirm) => !lock.ledger().is_over(),
            _ => true,
        }
    }

    fn is_passed(&self) {
        if let (Some(lock), Purpose::Acquire | Purpose::Heal) = (&self.lock, self.purpose) {
            lock.ledger().is_sent(self.node);
        }
    }

    fn answered(&self) -> Option<Answered> {
        let watch = self.watch.as_deref()?;
        let at = watch.runtime.now();
        Some(Answered {
            at,
            took: at.saturating_sub(watch.since),
            allowed: watch.allowed,
            sets_keys: matches!(
                self.command.operation(),
                Operation::Acquire { .. } | Operation::Exchange { .. }
            ),
        })
    }
}

impl Done {
    /// The answer to a command that sets a key.
    pub(crate) fn acquire_answer(&self) -> Result<AcquireAnswer, NodeError> {
        let reply = self.result.clone()?;
        AcquireAnswer::read(self.command.operation(), reply)
    }

    /// The answer to the confirmation of a fencing token.
    pub(crate) fn confirmation(&self) -> Result<(), NodeError> {
        let reply = self.result.clone()?;
        confirmed(self.command.operation(), &reply)
    }

    /// The answer to an extension or a release of one lock.
    pub(crate) fn key_answer(&self) -> Result<KeyAnswer, NodeError> {
        let reply = self.result.clone()?;
        KeyAnswer::read(self.command.operation(), &reply)
    }

    /// What a node that was inspected has.
    pub(crate) fn inspected(&self) -> Result<Option<LockKey>, NodeError> {
        let reply = self.result.clone()?;
        inspected(self.command.operation(), &reply)
    }

    /// The answers to an extension of several locks, one for each key.
    pub(crate) fn key_answers(&self) -> Result<Vec<KeyAnswer>, NodeError> {
        let reply = self.result.clone()?;
        KeyAnswer::read_all(self.command.operation(), &reply)
    }
}

/// The one call that finds out how a suspect node is. When it ends, in whatever way, the node is free
/// for the next one.
pub(crate) struct Probe {
    nodes: Arc<Nodes>,
    node: usize,
}

impl Probe {
    pub(crate) fn new(nodes: &Arc<Nodes>, node: usize) -> Self {
        let nodes = Arc::clone(nodes);
        Self { nodes, node }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        LockNode::probe_ended(&self.nodes.all[self.node]);
    }
}

/// Calls under way. They are polled in the order in which they were added (rule N12), and so
/// heard in that order.
///
/// The first one is polled whenever the task is. On one node it is the only one, and needs nothing more.
/// The others are polled only when they ask for it: a poll goes through a whole client.
#[derive(Default)]
pub(crate) struct Calls {
    running: Vec<Running>,
    /// Wakes the task for those that have a waker of their own.
    task: Option<Arc<AtomicWaker>>,
}

struct Running {
    call: BoxFuture<'static, Done>,
    waker: Option<CallWaker>,
}

/// A call's own waker, by which it says that it wants to be polled.
struct CallWaker {
    waker: Waker,
    wish: Arc<Wish>,
}

struct Wish {
    is_there: AtomicBool,
    task: Arc<AtomicWaker>,
}

impl Calls {
    /// Adds a call. It is sent at the next poll.
    pub(crate) fn push(&mut self, call: Call) {
        self.add(Box::pin(Unanswered(call).run()));
    }

    fn add(&mut self, call: BoxFuture<'static, Done>) {
        let waker =
            (!self.running.is_empty()).then(|| CallWaker::new(self.task.get_or_insert_default()));
        self.running.push(Running { call, waker });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// All of them, for another task to wait for.
    pub(crate) fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Returns the next call that ends, or `None` if there is none left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Done>> {
        // Before the calls are looked at: one that asks from here on wakes this task.
        if let Some(task) = &self.task {
            task.register(cx.waker());
        }
        for index in 0..self.running.len() {
            let Running { call, waker } = &mut self.running[index];
            if waker.as_ref().is_some_and(|waker| !waker.wish.take()) {
                continue;
            }
            let waker = waker.as_ref().map_or(cx.waker(), |waker| &waker.waker);
            let mut cx = Context::from_waker(waker);
            let poll = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut cx)));
            if let Ok(Poll::Pending) = poll {
                continue;
            }
            // In order: the calls behind it may not have been polled yet. A call that panics, in a
            // subscriber of `tracing` say, is over too, and would never wake anybody.
            self.running.remove(index);
            return match poll {
                Ok(done) => done.map(Some),
                Err(panic) => resume_unwind(panic),
            };
        }
        match self.running.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    /// The next call that ends, however long it takes; `None` if there is none left.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Done> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// A call that has ended already. It waits for none, but sends what was added and not polled
    /// yet.
    pub(crate) async fn next_ready(&mut self) -> Option<Done> {
        std::future::poll_fn(|cx| match self.poll_next(cx) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

impl CallWaker {
    fn new(task: &Arc<AtomicWaker>) -> Self {
        let wish = Arc::new(Wish {
            is_there: AtomicBool::new(true),
            task: Arc::clone(task),
        });
        let waker = Waker::from(Arc::clone(&wish));
        Self { waker, wish }
    }
}

impl Wish {
    /// Most calls have none: they are looked at, not written to.
    fn take(&self) -> bool {
        self.is_there.load(Ordering::Relaxed) && self.is_there.swap(false, Ordering::Acquire)
    }
}

impl Wake for Wish {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_there.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls({})", self.running.len())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;

    use super::*;

    type Log = Arc<Mutex<Vec<usize>>>;

    /// A call that notes each of its polls, and ends at the given one. It keeps its waker.
    fn call(
        node: usize,
        polls: usize,
        log: &Log,
        wakers: &Arc<Mutex<Vec<Waker>>>,
    ) -> BoxFuture<'static, Done> {
        let (log, wakers) = (Arc::clone(log), Arc::clone(wakers));
        let mut left = polls;
        Box::pin(poll_fn(move |cx| {
            log.lock().unwrap().push(node);
            left -= 1;
            if left > 0 {
                wakers.lock().unwrap().push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Done {
                node,
                purpose: Purpose::Other,
                lock: None,
                part: 0,
                result: Ok(Reply::Nil),
                command: Command::from(Operation::Inspect {
                    key: Arc::from(*b"key"),
                }),
            })
        }))
    }

    fn ready(calls: &mut Calls) -> Option<usize> {
        let done = calls.next_ready().now_or_never().flatten();
        done.map(|done| done.node)
    }

    #[test]
    fn calls_are_polled_and_heard_in_the_order_in_which_they_were_added() {
        let (log, wakers) = (Log::default(), Arc::default());
        let mut calls = Calls::default();
        for (node, polls) in [(0, 4), (1, 1), (2, 1)] {
            calls.add(call(node, polls, &log, &wakers));
        }
        assert_eq!(ready(&mut calls), Some(1));
        assert_eq!(ready(&mut calls), Some(2));
        assert_eq!(ready(&mut calls), None);
        assert_eq!(*log.lock().unwrap(), [0, 1, 0, 2, 0]);
        assert_eq!(ready(&mut calls), Some(0));
        assert!(calls.is_empty());
    }

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_call_behind_the_first_is_polled_again_only_when_it_asks_and_then_wakes_the_task() {
        let (log, wakers) = (Log::default(), Arc::default());
        let mut calls = Calls::default();
        for node in 0..3 {
            calls.add(call(node, 2 + node, &log, &wakers));
        }
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut cx = Context::from_waker(&waker);
        assert!(calls.poll_next(&mut cx).is_pending());
        assert_eq!(*log.lock().unwrap(), [0, 1, 2]);
        assert!(matches!(calls.poll_next(&mut cx), Poll::Ready(Some(done)) if done.node == 0));
        assert!(calls.poll_next(&mut cx).is_pending());
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 0], "nobody else has asked");
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
        wakers.lock().unwrap()[2].wake_by_ref();
        wakers.lock().unwrap()[2].wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1, "for one wish");
        assert!(calls.poll_next(&mut cx).is_pending());
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 0, 2]);
    }

    #[test]
    fn a_lone_call_has_the_waker_of_the_task() {
        let (log, wakers) = (Log::default(), Arc::<Mutex<Vec<Waker>>>::default());
        let mut calls = Calls::default();
        calls.add(call(0, 2, &log, &wakers));
        let waker = Waker::from(Arc::new(Task::default()));
        assert!(
            calls
                .poll_next(&mut Context::from_waker(&waker))
                .is_pending()
        );
        assert!(wakers.lock().unwrap()[0].will_wake(&waker));
    }

    #[test]
    fn a_waker_of_a_call_that_has_ended_does_no_harm() {
        let (log, wakers) = (Log::default(), Arc::default());
        let mut calls = Calls::default();
        calls.add(call(0, 2, &log, &wakers));
        assert_eq!(ready(&mut calls), None);
        let waker = wakers.lock().unwrap()[0].clone();
        waker.wake_by_ref();
        assert_eq!(ready(&mut calls), Some(0));
        waker.wake();
        assert_eq!(ready(&mut calls), None);
    }

    #[test]
    fn a_call_that_panics_is_gone_and_the_others_stay() {
        let (log, wakers) = (Log::default(), Arc::default());
        let mut calls = Calls::default();
        calls.add(Box::pin(async { panic!("on purpose") }));
        calls.add(call(1, 1, &log, &wakers));
        let panics = catch_unwind(AssertUnwindSafe(|| ready(&mut calls)));
        assert!(panics.is_err());
        assert_eq!(ready(&mut calls), Some(1));
        assert!(calls.is_empty());
    }
}
