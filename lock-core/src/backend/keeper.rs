//! Keeps one connection to the server: opens it when somebody calls, and replaces it when it breaks
//! or hangs.
//!
//! ```text
//!           a call              success
//!   down ------------> connecting ------> up
//!    ^   (after a pause)   |              |
//!    +---------------------+--------------+   failure, break, hang
//! ```
//!
//! A server that says that it is the wrong one stays up while another connection is opened beside it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::future::{Either, select};

use super::call::Call;
use super::client::{Client, Connection, Opened};
use super::dialing::{Admission, Dialing};
use super::last_words;
use super::link::{Link, LinkTask, Owner};
use super::queue::{Queue, Ticket, Waiting};
use crate::display::Ms;
use crate::node::{Command, NodeError, NodeErrorKind, Reply};
use crate::runtime::{AmbientId, BoxFuture, Runtime, ambient};
use crate::sync::locked;

/// How many replaced connections are held on to at a time.
const MAX_LINGERING: usize = 4;

/// How long a client that is late may take to say why.
const GRACE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    /// `None` is the ambient one of each call.
    pub(super) runtime: Option<Arc<dyn Runtime>>,
}

pub(super) struct Keeper<C: Client> {
    pub(super) client: Arc<C>,
    pub(super) settings: Settings,
    /// For calls to find without the lock. It changes under the lock.
    up: ArcSwapOption<Link<C>>,
    state: Mutex<State<C>>,
}

struct State<C: Client> {
    dialing: Dialing,
    /// Calls that wait for the connect that runs.
    queue: Queue,
    /// Connections that were replaced, oldest first.
    lingering: VecDeque<Arc<Link<C>>>,
}

impl<C: Client> Keeper<C> {
    pub(super) fn new(client: Arc<C>, settings: Settings) -> Self {
        Self {
            client,
            settings,
            up: ArcSwapOption::empty(),
            state: Mutex::new(State {
                dialing: Dialing::default(),
                queue: Queue::default(),
                lingering: VecDeque::new(),
            }),
        }
    }

    /// Sends the command, at most once, and waits for its reply.
    ///
    /// Not an `async fn`, whose future holds each argument twice.
    pub(super) fn execute<'a>(
        self: &'a Arc<Self>,
        command: &'a Command,
        within: Duration,
    ) -> BoxFuture<'a, Result<Reply, NodeError>> {
        Box::pin(async move {
            loop {
                let Some(link) = self.up.load_full() else {
                    match self.enter_queue(command, within)? {
                        // Boxed, so that the common call has no room for it.
                        Some(ticket) => return Box::pin(self.wait(ticket)).await,
                        None => continue,
                    }
                };
                // Somebody may hold on to the runtime of the connection and not drive it.
                let timer = (!link.is_home()).then(|| self.runtime().0.sleep(within));
                let request = link.connection().send(command);
                let (taken, command) = (Arc::clone(&link), command.clone());
                let mut call = pin!(Call::new(taken, command, within, timer, request));
                let answer = call.as_mut().await;
                // If it ended between the look at it and the call, another connection takes the call. What
                // was handed over is never sent again, whatever became of it.
                if !(call.was_refused() && self.forget(&link)) {
                    return answer;
                }
            }
        })
    }

    /// Lets the connection go. Calls in flight end on it, and the releases behind doubtful acquires go first.
    pub(super) fn retire(&self) {
        if let Some(link) = self.up.load_full() {
            link.retire();
        }
    }

    /// Takes the connection down if it has ended; `false` if it has not.
    #[cold]
    fn forget(&self, link: &Arc<Link<C>>) -> bool {
        if !link.has_ended() {
            return false;
        }
        let state = locked(&self.state);
        let was_up = self.take_down(link);
        drop(state);
        // Not under the lock, since the client's code may be dropped with it.
        drop(was_up);
        true
    }

    #[cold]
    async fn wait(&self, ticket: Ticket) -> Result<Reply, NodeError> {
        match ticket.sent().await {
            Some(answer) => answer?.await,
            None => Err(locked(&self.state).dialing.still_connecting()),
        }
    }

    /// Lets a call wait for the connection, and connects if nobody does. `None` if the connection is
    /// up by now.
    #[cold]
    fn enter_queue(
        self: &Arc<Self>,
        command: &Command,
        within: Duration,
    ) -> Result<Option<Ticket>, NodeError> {
        let (runtime, home) = self.runtime();
        let timer = runtime.sleep(within);
        let now = runtime.now();
        let mut state = locked(&self.state);
        if self.up.load().is_some() {
            return Ok(None);
        }
        let timeout = self.settings.connect_timeout;
        let admission = state.dialing.admit(now, within, timeout)?;
        let given_up = match admission {
            Admission::Wait => Queue::default(),
            Admission::Connect(_) => std::mem::take(&mut state.queue),
        };
        let ticket = state.queue.enter(Waiting {
            command: command.clone(),
            within,
            since: now,
            timer,
        });
        drop(state);
        given_up.fail(&NodeError::not_sent("the connect was cut off"));
        if let Admission::Connect(number) = admission {
            self.connect(number, runtime, home);
        }
        ticket.map(Some)
    }

    /// Begins an attempt. Not to be called under the lock: a runtime that has ended drops the task here,
    /// which ends it.
    fn connect(self: &Arc<Self>, number: u64, runtime: Arc<dyn Runtime>, home: Option<AmbientId>) {
        let attempt = Attempt {
            keeper: Arc::downgrade(self),
            number: Some(number),
            runtime: Arc::clone(&runtime),
            home,
        };
        let timeout = self.settings.connect_timeout;
        runtime.spawn(Box::pin(attempt.run(Arc::clone(&self.client), timeout)));
    }

    /// The runtime that a call needs, and its id if others may be on another one.
    fn runtime(&self) -> (Arc<dyn Runtime>, Option<AmbientId>) {
        match &self.settings.runtime {
            Some(runtime) => (Arc::clone(runtime), None),
            None => (ambient(), Some(AmbientId::current())),
        }
    }

    /// The calls that wait leave before any that comes later. Returns whether the link is in use.
    fn connected(&self, number: u64, now: Duration, link: &Arc<Link<C>>) -> bool {
        loop {
            let mut state = locked(&self.state);
            if !state.dialing.renew(number, now) {
                return false;
            }
            if let Some(before) = self.up.load_full() {
                drop(state);
                // Its releases are sent before this one takes calls.
                before.retire();
                continue;
            }
            if state.queue.is_empty() {
                state.dialing.end();
                // A call that waited may have ended it, or had it replaced.
                if link.is_usable() {
                    self.up.store(Some(Arc::clone(link)));
                }
                return true;
            }
            let queue = std::mem::take(&mut state.queue);
            // The client's code is not run under the lock. Meanwhile calls enter the queue anew.
            drop(state);
            queue.send(|call| {
                let request = link.connection().send(&call.command);
                let (link, timer) = (Arc::clone(link), Some(call.timer));
                Box::pin(Call::new(link, call.command, call.within, timer, request))
            });
        }
    }

    /// Called under the lock; what it returns is to be dropped outside.
    fn take_down(&self, link: &Arc<Link<C>>) -> Option<Arc<Link<C>>> {
        let is_up = self
            .up
            .load()
            .as_ref()
            .is_some_and(|up| Arc::ptr_eq(up, link));
        if is_up { self.up.swap(None) } else { None }
    }
}

impl<C: Client> Owner<C> for Keeper<C> {
    #[cold]
    fn proven(&self) {
        locked(&self.state).dialing.succeeded();
    }

    #[cold]
    fn misdirected(self: Arc<Self>) {
        let (runtime, home) = self.runtime();
        let now = runtime.now();
        let timeout = self.settings.connect_timeout;
        let number = locked(&self.state).dialing.look_elsewhere(now, timeout);
        if let Some(number) = number {
            self.client.prefer_another_address();
            self.connect(number, runtime, home);
        }
    }

    #[cold]
    fn lost(&self, link: &Arc<Link<C>>, why: &NodeError, is_proven: bool) {
        let runtime = link.runtime();
        let failed = (!is_proven).then(|| (runtime.now(), runtime.random()));
        let mut state = locked(&self.state);
        let lingers = state
            .lingering
            .iter()
            .position(|other| Arc::ptr_eq(other, link));
        let gone = lingers.and_then(|index| state.lingering.remove(index));
        let was_up = self.take_down(link);
        if was_up.is_some()
            && let Some((now, random)) = failed
        {
            let error = match last_words(why) {
                Some(words) => words.clone(),
                None => NodeError::not_sent("the connection broke before any reply")
                    .with_source(why.clone()),
            };
            state.dialing.failed(now, random, error);
        }
        drop(state);
        // Not under the lock, since the client's code may be dropped with them.
        drop((gone, was_up));
    }

    #[cold]
    fn replaced(&self, link: &Arc<Link<C>>) {
        let mut state = locked(&self.state);
        let Some(was_up) = self.take_down(link) else {
            return;
        };
        state.lingering.push_back(was_up);
        let oldest = if state.lingering.len() > MAX_LINGERING {
            state.lingering.pop_front()
        } else {
            None
        };
        drop(state);
        if let Some(oldest) = oldest {
            oldest.close(NodeError::connection("the connection hung"));
        }
    }
}

impl<C: Client> Drop for Keeper<C> {
    fn drop(&mut self) {
        if let Some(link) = self.up.swap(None) {
            link.close(NodeError::connection("the node was dropped"));
        }
    }
}

/// One attempt to connect, and then the connection, in a task of its own, so that it survives the
/// caller that started it.
struct Attempt<C: Client> {
    keeper: Weak<Keeper<C>>,
    /// `None` once it is over.
    number: Option<u64>,
    /// Where it runs, and then the connection.
    runtime: Arc<dyn Runtime>,
    home: Option<AmbientId>,
}

impl<C: Client> Attempt<C> {
    async fn run(mut self, client: Arc<C>, timeout: Duration) {
        match open(client, &*self.runtime, timeout).await {
            Ok(opened) => {
                let link = self.connected(opened);
                drop(self);
                if let Some(link) = link {
                    link.await;
                }
            }
            Err(error) => self.failed(error),
        }
    }

    /// Returns the task of the connection, unless nobody wants it any more.
    fn connected(&mut self, opened: Opened<C::Connection>) -> Option<LinkTask<C>> {
        let keeper = self.keeper.upgrade()?;
        let (runtime, weak) = (Arc::clone(&self.runtime), Weak::clone(&self.keeper));
        let (link, task) = Link::new(weak, runtime, self.home, opened);
        let is_in_use = keeper.connected(self.number?, self.runtime.now(), &link);
        self.number = None;
        is_in_use.then_some(task)
    }

    fn failed(&mut self, error: NodeError) {
        let (Some(number), Some(keeper)) = (self.number.take(), self.keeper.upgrade()) else {
            return;
        };
        if error.is_wrong_server() {
            keeper.client.prefer_another_address();
        }
        let (now, random) = (self.runtime.now(), self.runtime.random());
        let mut state = locked(&keeper.state);
        if state.dialing.renew(number, now) {
            state.dialing.end();
            state.dialing.failed(now, random, error.clone());
            let queue = std::mem::take(&mut state.queue);
            drop(state);
            queue.fail(&error);
        }
    }
}

impl<C: Client> Drop for Attempt<C> {
    fn drop(&mut self) {
        self.failed(NodeError::not_sent(
            "the connect was cut off: its runtime ended, or has not enabled what the client needs",
        ));
    }
}

/// Connects, in hardly more than `within`.
async fn open<C: Client>(
    client: Arc<C>,
    runtime: &dyn Runtime,
    within: Duration,
) -> Result<Opened<C::Connection>, NodeError> {
    // Boxed, so that it takes no memory once the connection is up.
    let connect = Box::pin(client.connect(within));
    let cut_off = runtime.sleep(within.saturating_add(GRACE));
    let error = match select(connect, cut_off).await {
        Either::Left((Ok(opened), _)) => return Ok(opened),
        Either::Left((Err(error), _)) => error,
        Either::Right(_) => NodeError::not_sent(format!("not connected in {}", Ms(within))),
    };
    Err(match error.kind() {
        NodeErrorKind::NotSent | NodeErrorKind::Server => error,
        // No command has left.
        _ => NodeError::not_sent("cannot connect").with_source(error),
    })
}
