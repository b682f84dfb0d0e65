//! Calls to nodes: one command each, and the answer that comes back.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;

use super::acquisition::Acquisition;
use super::node::{Gate, LockNode};
use super::nodes::Nodes;
use super::protocol::{AcquireAnswer, KeyAnswer};
use crate::node::{Command, NodeError, Reply};
use crate::runtime::BoxFuture;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Acquire,
    /// Sets the key again at a node that forgot it.
    Heal,
    Extend,
    Release,
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
        }
    }

    fn with_purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    async fn run(self) -> Done {
        let node = &self.nodes.all[self.node];
        let result = node.execute(&self.command, self.within, &self).await;
        drop(self.probe);
        Done {
            node: self.node,
            purpose: self.purpose,
            lock: self.lock,
            part: self.part,
            result,
            command: self.command,
        }
    }
}

/// What sets or extends a key is not sent when its lock is over, as it would run behind its own
/// release. A release always is.
impl Gate for Call {
    fn opens(&self) -> bool {
        match (&self.lock, self.purpose) {
            (Some(lock), Purpose::Acquire | Purpose::Heal) => lock.ledger().begins(self.node),
            (Some(lock), Purpose::Extend) => !lock.ledger().is_over(),
            _ => true,
        }
    }

    fn is_passed(&self) {
        if let (Some(lock), Purpose::Acquire | Purpose::Heal) = (&self.lock, self.purpose) {
            lock.ledger().is_sent(self.node);
        }
    }
}

impl Done {
    /// The answer to a command that sets a key.
    pub(crate) fn acquire_answer(&self) -> Result<AcquireAnswer, NodeError> {
        let reply = self.result.clone()?;
        AcquireAnswer::read(self.command.operation(), reply)
    }

    /// The answer to an extension or a release of one lock.
    pub(crate) fn key_answer(&self) -> Result<KeyAnswer, NodeError> {
        let reply = self.result.clone()?;
        KeyAnswer::read(self.command.operation(), &reply)
    }

    /// The answers to an extension of so many keys.
    pub(crate) fn key_answers(&self, count: usize) -> Result<Vec<KeyAnswer>, NodeError> {
        let reply = self.result.clone()?;
        KeyAnswer::read_all(self.command.operation(), &reply, count)
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
/// heard in that order, and each only when it asks for it: a poll goes through a whole client.
#[derive(Default)]
pub(crate) struct Calls {
    running: Vec<Running>,
    task: Arc<AtomicWaker>,
}

struct Running {
    call: BoxFuture<'static, Done>,
    waker: Waker,
    state: Arc<CallWaker>,
}

struct CallWaker {
    /// The call asks to be polled.
    is_woken: AtomicBool,
    /// The task that waits for the calls.
    task: Arc<AtomicWaker>,
}

impl Calls {
    /// Adds a call. It is sent at the next poll.
    pub(crate) fn push(&mut self, call: Call) {
        let state = Arc::new(CallWaker {
            is_woken: AtomicBool::new(true),
            task: Arc::clone(&self.task),
        });
        self.running.push(Running {
            call: Box::pin(call.run()),
            waker: Waker::from(Arc::clone(&state)),
            state,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the next call that ends, or `None` if there is none left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Done>> {
        // Before the calls are looked at: one that asks from here on wakes this task.
        self.task.register(cx.waker());
        for index in 0..self.running.len() {
            let running = &mut self.running[index];
            if !running.state.is_woken() {
                continue;
            }
            let mut cx = Context::from_waker(&running.waker);
            if let Poll::Ready(done) = Pin::new(&mut running.call).poll(&mut cx) {
                // In order: the calls behind it may not have been polled yet.
                self.running.remove(index);
                return Poll::Ready(Some(done));
            }
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
    /// Takes the wish to be polled. Most calls have none: they are looked at, not written to.
    fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Relaxed) && self.is_woken.swap(false, Ordering::Acquire)
    }
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls({})", self.running.len())
    }
}
