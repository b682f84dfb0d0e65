//! Keeps one connection to the server: opens it when somebody calls, and replaces it when it
//! breaks or hangs.
//!
//! ```text
//!           a call            success
//!   Down ------------> Dialing ------> Up(link)
//!    ^  (after a pause)  |               |
//!    +-------------------+---------------+  failure, break, hang
//! ```
//!
//! redis-rs's `ConnectionManager` is not used: its calls wait for a reconnect however long that
//! takes, and it never replaces a connection that merely hangs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use lock_core::NodeError;

use crate::backoff::Backoff;
use crate::convert::pack;
use crate::dial::{Dial, Dialed};
use crate::driver::PatientDriver;
use crate::link::Link;
use crate::locked;
use crate::queue::{Queue, Ticket};
use crate::rt::{Instant, Runtime, Task};
use crate::watch::{Watch, Watches};

/// How many replaced connections are held on to at a time.
const LINGERING: usize = 4;

/// How long after its timeout a connect may still be about to report its end.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Connector {
    dialer: Arc<dyn Dial>,
    connect_timeout: Duration,
    /// The link in [`Phase::Up`], for calls to find without the lock. It changes under the lock.
    up: ArcSwapOption<Link>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    backoff: Backoff,
    watches: Watches,
    /// The number of the current or last dialing, by which a late one is told.
    dialing: u64,
    lingering: VecDeque<Task>,
}

enum Phase {
    Down,
    Dialing { since: Instant, queue: Queue },
    Up,
}

/// What becomes of a call.
pub(crate) enum Admission {
    /// It is sent now. The watch is the link's own, unless the caller runs elsewhere.
    Send(Arc<Link>, Option<Arc<Watch>>),
    /// It is sent when the connection is up, in the order of the calls.
    Wait(Ticket, Arc<Watch>),
}

impl Connector {
    pub(crate) fn new(dialer: Arc<dyn Dial>, connect_timeout: Duration) -> Self {
        Self {
            dialer,
            connect_timeout,
            up: ArcSwapOption::empty(),
            state: Mutex::new(State {
                phase: Phase::Down,
                backoff: Backoff::default(),
                watches: Watches::default(),
                dialing: 0,
                lingering: VecDeque::new(),
            }),
        }
    }

    pub(crate) fn dialer(&self) -> Arc<dyn Dial> {
        Arc::clone(&self.dialer)
    }

    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Lets a call in, or says why nothing is sent.
    pub(crate) fn admit(
        self: &Arc<Self>,
        command: &lock_core::Command,
        within: Duration,
    ) -> Result<Admission, NodeError> {
        if let Some(link) = self.up.load_full()
            && link.watch().is_of_caller()
        {
            return send_on(link, None);
        }
        let mut state = locked(&self.state);
        let watch = state.watches.current()?;
        if let Some(link) = self.up.load_full() {
            return send_on(link, Some(watch));
        }
        let (ticket, dialing) = self.admit_while_not_up(&mut state, command, within)?;
        drop(state);
        if let Some((dialing, given_up)) = dialing {
            if let Phase::Dialing { queue, .. } = given_up {
                let cut_off = NodeError::not_sent("the connect was cut off");
                queue.fail(&cut_off).wake();
            }
            let runtime = dialing.runtime.clone();
            // Not under the lock: a runtime that has ended drops the task here, and so ends it.
            runtime.spawn(dialing.run(self.dialer(), self.connect_timeout));
        }
        Ok(Admission::Wait(ticket, watch))
    }

    /// Lets a call wait for the connection, and says what is to be spawned to get one, and what is
    /// given up for it.
    #[cold]
    fn admit_while_not_up(
        self: &Arc<Self>,
        state: &mut State,
        command: &lock_core::Command,
        within: Duration,
    ) -> Result<(Ticket, Option<(Dialing, Phase)>), NodeError> {
        let now = Instant::now();
        if let Phase::Dialing { since, queue } = &mut state.phase {
            let dialed_for = now.saturating_duration_since(*since);
            // A dialing that takes longer than it may belongs to a runtime that nobody runs any
            // more: it is given up, and its late success will be told by its number.
            if dialed_for <= self.connect_timeout.saturating_add(GRACE) {
                if dialed_for > within {
                    return Err(state.backoff.connecting());
                }
                return Ok((queue.enter(pack(command))?, None));
            }
        }
        state.backoff.may_dial(now)?;
        let runtime = Runtime::current()?;
        state.dialing += 1;
        let mut queue = Queue::default();
        let ticket = queue.enter(pack(command))?;
        let given_up = std::mem::replace(&mut state.phase, Phase::Dialing { since: now, queue });
        let dialing = Dialing {
            connector: Arc::downgrade(self),
            number: state.dialing,
            runtime,
        };
        Ok((ticket, Some((dialing, given_up))))
    }

    /// What to say to a call that waited for the connection in vain.
    #[cold]
    pub(crate) fn still_connecting(&self) -> NodeError {
        locked(&self.state).backoff.connecting()
    }

    /// The connection gave its first reply: the server works.
    #[cold]
    pub(crate) fn proven(&self) {
        locked(&self.state).backoff.reset();
    }

    /// The connection broke. The next call dials anew, at once if the server ever answered on it.
    pub(crate) fn lost(&self, link: &Arc<Link>) {
        let mut state = locked(&self.state);
        if self.is_up_with(link) {
            self.take_down(&mut state);
            if !link.is_proven() {
                let error = NodeError::not_sent("the connection broke before any reply");
                state.backoff.failed(Instant::now(), error);
            }
        }
    }

    /// The connection hangs: the next call dials anew, while the old one gets the undos that
    /// belong behind its doubtful acquires.
    #[cold]
    pub(crate) fn replace(&self, link: &Arc<Link>) {
        let mut state = locked(&self.state);
        if !self.is_up_with(link) {
            return;
        }
        // Under the lock, so that no call takes the new connection before this one has its undos.
        if let Some(lingering) = link.replace() {
            state.lingering.retain(|task| !task.is_finished());
            state.lingering.push_back(lingering);
            if state.lingering.len() > LINGERING
                && let Some(mut oldest) = state.lingering.pop_front()
            {
                oldest.abort();
            }
        }
        self.take_down(&mut state);
    }

    fn is_up_with(&self, link: &Arc<Link>) -> bool {
        let up = self.up.load();
        up.as_ref().is_some_and(|up| Arc::ptr_eq(up, link))
    }

    fn take_down(&self, state: &mut State) {
        self.up.store(None);
        state.phase = Phase::Down;
    }
}

fn send_on(link: Arc<Link>, watch: Option<Arc<Watch>>) -> Result<Admission, NodeError> {
    if link.is_full() {
        return Err(NodeError::not_sent("too many calls in flight"));
    }
    Ok(Admission::Send(link, watch))
}

/// One attempt to connect, in a task of its own, so that it survives the caller who started it.
struct Dialing {
    connector: Weak<Connector>,
    number: u64,
    /// Where it runs, and then the connection.
    runtime: Runtime,
}

impl Dialing {
    async fn run(self, dialer: Arc<dyn Dial>, connect_timeout: Duration) {
        let dialed = dialer.dial(&self.runtime, connect_timeout).await;
        self.end(dialed);
    }

    fn end(&self, dialed: Result<Dialed, NodeError>) {
        let Some(connector) = self.connector.upgrade() else {
            return;
        };
        let mut state = locked(&connector.state);
        if state.dialing != self.number {
            return;
        }
        // A second end, at the drop, finds the number gone.
        state.dialing += 1;
        let Phase::Dialing { queue, .. } = std::mem::replace(&mut state.phase, Phase::Down) else {
            return;
        };
        let watched = dialed.and_then(|dialed| Ok((dialed, state.watches.current()?)));
        let told = match watched {
            Ok((dialed, watch)) => {
                let link = link(&connector, &self.runtime, dialed, watch);
                // The waiting calls leave before any that comes now.
                let told = queue.send(&link);
                connector.up.store(Some(link));
                state.phase = Phase::Up;
                told
            }
            Err(error) => {
                state.backoff.failed(Instant::now(), error.clone());
                queue.fail(&error)
            }
        };
        drop(state);
        told.wake();
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        // Not reached by a dialing that ended: its number is gone.
        self.end(Err(NodeError::not_sent(
            "the connect was cut off: its runtime ended, or has no IO enabled",
        )));
    }
}

/// Makes a link of a connection, with a driver that reports its end.
fn link(
    connector: &Arc<Connector>,
    runtime: &Runtime,
    dialed: Dialed,
    watch: Arc<Watch>,
) -> Arc<Link> {
    Arc::new_cyclic(|link: &Weak<Link>| {
        let end = DriverEnd {
            connector: Arc::downgrade(connector),
            link: link.clone(),
        };
        let driver = dialed.driver.map(|driver| {
            let driver = PatientDriver::new(driver, link.clone());
            runtime.spawn(async move {
                driver.await;
                drop(end);
            })
        });
        Link::new(dialed.connection, runtime.clone(), watch, driver)
    })
}

/// Reports the end of a connection, whether it broke or its runtime ended.
struct DriverEnd {
    connector: Weak<Connector>,
    link: Weak<Link>,
}

impl Drop for DriverEnd {
    fn drop(&mut self) {
        if let (Some(connector), Some(link)) = (self.connector.upgrade(), self.link.upgrade()) {
            connector.lost(&link);
        }
    }
}
