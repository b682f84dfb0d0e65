//! The nodes of one lock, and what is known of each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use super::backlog::Backlog;
use super::delays::Delays;
use super::news::{Item, News};
use super::protocol::{Admission, Answered, Ballots, Debt, Debts, Health, NodeSet, Quorum, Timing};
use super::settings::Settings;
use crate::error::NodeReports;
use crate::events::{self, LockName};
use crate::node::{Command, NodeError, NodeErrorKind, Operation, RedisNode, Reply};
use crate::runtime::BoxFuture;
use crate::sync::locked;

/// A node that was given less time than this is not suspect when it did not answer: a lock with a
/// ttl of a few milliseconds must not close the node to all others.
const SUSPICIOUS: Duration = Duration::from_millis(10);

/// A node was seen to be the same server as another one so many times before that is believed: a key may
/// also come from a command that was delayed.
const SEEN_BEFORE: usize = 1;

/// One node of a lock.
#[derive(Debug)]
pub(crate) struct LockNode {
    pub(crate) label: Arc<str>,
    node: Arc<dyn RedisNode>,
    /// How often it was seen to be the same server as another node.
    seen_as_twin: AtomicUsize,
    /// The node that is the same server, so that this one is not asked any more.
    twin_of: OnceLock<Arc<str>>,
    /// Nothing is the matter with it, and nothing more needs to be known then.
    is_fine: AtomicBool,
    health: Mutex<Health>,
    debts: Mutex<Debts>,
}

impl LockNode {
    pub(crate) fn new(node: Arc<dyn RedisNode>) -> Self {
        Self {
            label: Arc::from(node.label()),
            node,
            seen_as_twin: AtomicUsize::new(0),
            twin_of: OnceLock::new(),
            is_fine: AtomicBool::new(false),
            health: Mutex::default(),
            debts: Mutex::default(),
        }
    }

    /// Whether an acquire may ask the node at `now`, which then has `within` to answer. A probe
    /// ends with [`probe_ended`](Self::probe_ended), or lapses.
    pub(crate) fn admit(&self, now: Duration, within: Duration) -> Admission {
        match self.is_fine() {
            true => Admission::Go,
            false => self.update(|health| health.admit(now, within)),
        }
    }

    /// The label of the node that is the same server, once that is known.
    pub(crate) fn twin_of(&self) -> Option<&Arc<str>> {
        self.twin_of.get()
    }

    pub(crate) fn is_suspect(&self) -> bool {
        !self.is_fine() && locked(&self.health).is_suspect()
    }

    pub(super) fn probe_ended(&self) {
        self.update(Health::probe_ended);
    }

    /// How long the node may take: while it has never answered, its client has to connect first.
    pub(crate) fn within(&self, node_timeout: Duration, connect_timeout: Duration) -> Duration {
        if self.has_answered() {
            node_timeout
        } else {
            node_timeout.max(connect_timeout)
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.is_fine() || locked(&self.health).has_answered()
    }

    /// The time after which its last answer came, if that was too late.
    fn late(&self) -> Option<Duration> {
        locked(&self.health).late()
    }

    pub(super) fn debts(&self) -> MutexGuard<'_, Debts> {
        locked(&self.debts)
    }

    /// Spares all calls the mutex, and a look at the clock, while all is well.
    pub(crate) fn is_fine(&self) -> bool {
        self.is_fine.load(Ordering::Relaxed)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Health) -> T) -> T {
        let mut health = locked(&self.health);
        let told = change(&mut health);
        self.is_fine.store(health.is_fine(), Ordering::Relaxed);
        told
    }
}

/// The nodes of one lock and its settings.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) all: Box<[LockNode]>,
    pub(crate) settings: Settings,
    /// What operators are told of the nodes.
    news: News,
    /// Releases of guards that were dropped.
    pub(crate) releases: Arc<Backlog>,
    /// Copies for nodes that missed a lock.
    pub(crate) fills: Arc<Delays>,
    /// A task that worked in the background ended with its runtime, and what it left waits for another.
    left_work: AtomicBool,
}

impl Nodes {
    pub(crate) fn new(all: Vec<LockNode>, settings: Settings) -> Self {
        Self {
            all: all.into(),
            settings,
            news: News::default(),
            releases: Arc::default(),
            fills: Arc::default(),
            left_work: AtomicBool::new(false),
        }
    }

    /// Remembers a release that has to be sent again.
    pub(crate) fn owe(&self, node: usize, debt: Debt) {
        let lost = self.all[node].debts().push(debt);
        self.given_up(node, lost);
    }

    /// Says that a debt is not paid any more, if there is one.
    pub(crate) fn given_up(&self, node: usize, lost: Option<Debt>) {
        if let Some(Debt { keys, token, .. }) = &lost {
            let resource = self.settings.resource(keys.first());
            events::given_up(&self.all[node].label, LockName { resource, token });
        }
    }

    /// Says that a runtime ended before a task in the background did.
    pub(crate) fn leave_work(&self) {
        self.left_work.store(true, Ordering::SeqCst);
    }

    /// Returns whether a runtime ended before a task in the background did, since the last time that this
    /// was asked. The caller has to see to its work.
    pub(crate) fn take_left_work(&self) -> bool {
        self.left_work.load(Ordering::Relaxed) && self.left_work.swap(false, Ordering::SeqCst)
    }

    /// A node has a key that was sent to others alone, which have granted it: it is the same server as one
    /// of them. Seen twice, it is not asked any more, since its vote would count for two.
    pub(crate) fn recognise(&self, node: usize, granted: NodeSet) {
        let twin = &self.all[node];
        if twin.seen_as_twin.fetch_add(1, Ordering::Relaxed) < SEEN_BEFORE {
            return;
        }
        let others = granted.iter().map(|node| &*self.all[node].label);
        let others = others.collect::<Vec<_>>().join(" or ");
        if twin.twin_of.set(Arc::from(&*others)).is_ok() {
            events::twin(&twin.label, &others);
        }
    }

    pub(crate) fn quorum(&self) -> Quorum {
        self.settings.quorum
    }

    /// The labels of all nodes, in the configured order.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Arc<str>> {
        self.all.iter().map(|node| Arc::clone(&node.label))
    }

    /// What each node said, for an error.
    pub(crate) fn reports<A>(
        &self,
        ballots: &Ballots<A>,
        granted: impl Fn(&A) -> bool,
    ) -> NodeReports {
        let nodes = self.all.iter();
        let nodes = nodes.map(|node| (Arc::clone(&node.label), node.late()));
        ballots.reports(nodes, granted)
    }

    /// How long a node may take where one that has answered before may take `node_timeout`.
    pub(crate) fn within(&self, node: usize, node_timeout: Duration) -> Duration {
        self.all[node].within(node_timeout, self.settings.connect_timeout)
    }

    /// How long a node may take for a command of a lock. More than the validity is of no use.
    pub(crate) fn within_of(&self, node: usize, timing: Timing) -> Duration {
        self.within(node, timing.node_timeout).min(timing.validity)
    }

    /// Sends one command, by digest first, and with the source of its script if the node does not know
    /// that one: then nothing ran. Learns from what comes back how the node is. A client that
    /// panics takes neither the caller along nor the calls to other nodes that one task drives.
    ///
    /// Boxed is what is rare, so that a call stays small.
    pub(crate) async fn execute<G: Gate>(
        &self,
        node: usize,
        command: &Command,
        within: Duration,
        gate: &G,
    ) -> Result<Reply, NodeError> {
        if let Some(other) = self.all[node].twin_of()
            && !matches!(command.operation(), Operation::Release { .. })
        {
            let why = format!("not asked: it is the same server as {other}");
            return Err(NodeError::not_sent(why));
        }
        let result = self.send(node, command, within, gate).await;
        if command.is_digest() && result.as_ref().is_err_and(NodeError::is_no_script) {
            let command = command.with_source();
            return Box::pin(self.send(node, &command, within, gate)).await;
        }
        result
    }

    fn send<'c, G: Gate>(
        &'c self,
        node: usize,
        command: &'c Command,
        within: Duration,
        gate: &'c G,
    ) -> Send<'c, G> {
        Send {
            nodes: self,
            node,
            command,
            within,
            gate,
            call: None,
        }
    }

    fn learn<G: Gate>(&self, send: &Send<'_, G>, result: &Result<Reply, NodeError>) {
        let node = &self.all[send.node];
        let operation = send.command.operation().name();
        events::answer(&node.label, operation, result.as_ref().err());
        match result {
            Ok(_) if node.is_fine() => {}
            Ok(_) => self.served(send.node, send.gate.answered()),
            Err(error) => match error.kind() {
                NodeErrorKind::NoAnswer => self.overdue(send.node, send.within),
                NodeErrorKind::NotSent | NodeErrorKind::Connection => {
                    self.fails(send.node, error, Health::failed);
                }
                NodeErrorKind::Server | NodeErrorKind::UnexpectedReply => {
                    node.update(Health::answered);
                    if error.is_out_of_service() {
                        let change = match error.refuses_new_keys() {
                            true => Health::failed_full,
                            false => Health::failed,
                        };
                        self.fails(send.node, error, change);
                    }
                }
                NodeErrorKind::Unsupported => {}
            },
        }
    }

    /// The node did not answer in time.
    pub(crate) fn overdue(&self, node: usize, within: Duration) {
        if within >= SUSPICIOUS {
            self.fails(node, &NodeError::no_answer(within), Health::overdue);
        }
    }

    /// The change of its health returns whether the node is down from now on: operators are told.
    fn fails(&self, node: usize, error: &NodeError, change: fn(&mut Health) -> bool) {
        let is_news = self.all[node].update(|health| {
            let is_news = change(health);
            if is_news {
                self.news.went_down(node, error.clone(), self.quorum());
            }
            is_news
        });
        if is_news {
            let now = self.settings.runtime().system_time();
            self.news.went_down_at(node, now);
            self.tell_news();
        }
    }

    /// Since when operators know that the node is down, by the wall clock.
    pub(crate) fn down_since(&self, node: usize) -> Option<SystemTime> {
        self.news.down_since(node)
    }

    /// The node, which was not fine, did what it was asked for. If it is up from now on, operators are told.
    fn served(&self, node: usize, answered: Option<Answered>) {
        let is_news = self.all[node].update(|health| {
            let is_news = health.served(answered);
            if is_news {
                self.news.came_up(node, self.quorum());
            }
            is_news
        });
        if is_news {
            self.tell_news();
        }
    }

    fn tell_news(&self) {
        let (quorum, events) = (self.quorum().needed(), &self.settings.events);
        self.news.tell(|item| match item {
            Item::Down { node, error } => events.node_down(&self.all[*node].label, error),
            Item::Up { node } => events.node_up(&self.all[*node].label),
            Item::OutOfReach { up } => events.quorum_out_of_reach(*up, quorum),
            Item::Back => events.quorum_back(),
        });
    }
}

/// Decides, at the last moment, whether a command is sent.
pub(crate) trait Gate: Sync {
    /// Returns whether the command may be sent, right before it is.
    fn opens(&self) -> bool;

    /// The command is on its way: a call counts from its first poll (rule N12), which was just now.
    fn is_passed(&self);

    /// Says how long the call took that was answered just now, if it began when the node was not fine.
    fn answered(&self) -> Option<Answered>;
}

/// One command on its way to a node.
#[must_use]
struct Send<'c, G> {
    nodes: &'c Nodes,
    node: usize,
    command: &'c Command,
    within: Duration,
    gate: &'c G,
    /// `None` before the first poll.
    call: Option<BoxFuture<'c, Result<Reply, NodeError>>>,
}

impl<G: Gate> Future for Send<'_, G> {
    type Output = Result<Reply, NodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let is_first = this.call.is_none();
        if is_first && !this.gate.opens() {
            return Poll::Ready(Err(NodeError::not_sent("not asked: the attempt is over")));
        }
        let poll = match contained(|| this.poll_call(cx)) {
            Ok(poll) => poll,
            Err(panicked) => {
                // What the client has left half done is its own, and may panic once more.
                let call = this.call.take();
                contained(|| drop(call)).ok();
                Poll::Ready(Err(panicked))
            }
        };
        if is_first {
            this.gate.is_passed();
        }
        if let Poll::Ready(result) = &poll {
            this.nodes.learn(this, result);
        }
        poll
    }
}

impl<'c, G> Send<'c, G> {
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, NodeError>> {
        let node = &self.nodes.all[self.node].node;
        let (command, within) = (self.command, self.within);
        let call = || node.execute(command, within);
        let poll = self.call.get_or_insert_with(call).as_mut().poll(cx);
        if poll.is_ready() {
            self.call = None;
        }
        poll
    }
}

/// Runs the client's code. A panic of it is the error of a node that failed.
fn contained<T>(client: impl FnOnce() -> T) -> Result<T, NodeError> {
    catch_unwind(AssertUnwindSafe(client)).map_err(|_| NodeError::connection("the client panicked"))
}
