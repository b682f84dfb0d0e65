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
//! Each connection is a fred client of its own, which never reconnects. fred's reconnect is not
//! used: it keeps commands and sends them late, to a caller who is gone; its calls wait for it
//! instead of failing; and a connection that hangs it closes before the server has run what is in
//! it, releases included.

use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fred::error::Error;
use fred::types::ConnectHandle;
use lock_core::{Command, NodeError};
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::convert::{cause, server_error};
use crate::dial::{Dialed, dial};
use crate::link::Link;
use crate::locked;
use crate::queue::{Queue, Sent, Ticket};
use crate::settings::Settings;

/// How many replaced connections are held on to at a time.
const LINGERING: usize = 4;

/// How long after its timeout a connect may still be about to report its end.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Connector {
    settings: Arc<Settings>,
    connect_timeout: Duration,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    backoff: Backoff,
    /// The number of the current or last dialing, by which a late one is told.
    dialing: u64,
    lingering: VecDeque<AbortHandle>,
    /// The last runtime that turned out to have timers, so that it is probed only once.
    with_timers: Option<Id>,
}

enum Phase {
    Down,
    Dialing { since: Instant, queue: Queue },
    Up(Arc<Link>),
}

/// What becomes of a call.
pub(crate) enum Admission {
    /// It is sent now.
    Send(Arc<Link>),
    /// It is sent when the connection is up, in the order of the calls.
    Wait(Ticket),
}

impl Connector {
    pub(crate) fn new(settings: Arc<Settings>, connect_timeout: Duration) -> Self {
        Self {
            settings,
            connect_timeout,
            state: Mutex::new(State {
                phase: Phase::Down,
                backoff: Backoff::default(),
                dialing: 0,
                lingering: VecDeque::new(),
                with_timers: None,
            }),
        }
    }

    /// Lets a call in, or says why nothing is sent.
    pub(crate) fn admit(
        self: &Arc<Self>,
        command: &Command,
        within: Duration,
    ) -> Result<Admission, NodeError> {
        // fred's timeout of a call panics where there are no timers.
        let Ok(runtime) = Handle::try_current() else {
            return Err(NodeError::not_sent("needs a tokio runtime"));
        };
        let mut state = locked(&self.state);
        if state.with_timers != Some(runtime.id()) {
            state.probe(&runtime)?;
        }
        if let Phase::Up(link) = &state.phase {
            if link.is_full() {
                return Err(NodeError::not_sent("too many calls in flight"));
            }
            return Ok(Admission::Send(Arc::clone(link)));
        }
        let (ticket, dialing) = self.admit_while_not_up(&mut state, command, within)?;
        drop(state);
        if let Some(dialing) = dialing {
            // Not under the lock: a runtime that has ended drops the task here, and so ends it.
            runtime.spawn(dialing.run(Arc::clone(&self.settings), self.connect_timeout));
        }
        Ok(Admission::Wait(ticket))
    }

    /// Lets a call wait for the connection, and says what is to be spawned to get one.
    #[cold]
    fn admit_while_not_up(
        self: &Arc<Self>,
        state: &mut State,
        command: &Command,
        within: Duration,
    ) -> Result<(Ticket, Option<Dialing>), NodeError> {
        let now = Instant::now();
        if let Phase::Dialing { since, queue } = &mut state.phase {
            let dialed_for = now.saturating_duration_since(*since);
            // A dialing that takes longer than it may belongs to a runtime that nobody runs any
            // more: it is given up, and its late success will be told by its number.
            if dialed_for <= self.connect_timeout.saturating_add(GRACE) {
                if dialed_for > within {
                    return Err(state.backoff.connecting());
                }
                return Ok((queue.enter(command, within)?, None));
            }
        }
        state.backoff.may_dial(now)?;
        state.dialing += 1;
        let mut queue = Queue::default();
        let ticket = queue.enter(command, within)?;
        let given_up = std::mem::replace(&mut state.phase, Phase::Dialing { since: now, queue });
        if let Phase::Dialing { queue, .. } = given_up {
            queue.fail(&NodeError::not_sent("the connect was cut off"));
        }
        let dialing = Dialing {
            connector: Arc::downgrade(self),
            number: state.dialing,
        };
        Ok((ticket, Some(dialing)))
    }

    /// Gives a place in the queue up. Returns the command that was sent before, or what to say to
    /// a call that waited for the connection in vain: its command surely is not sent any more.
    #[cold]
    pub(crate) fn leave(&self, ticket: &mut Ticket) -> Result<Sent, NodeError> {
        // Under the lock, since the queue is sent under it: all of it, or nothing yet.
        let state = locked(&self.state);
        ticket.close();
        match ticket.try_recv() {
            Ok(outcome) => outcome,
            Err(_) => Err(state.backoff.connecting()),
        }
    }

    /// The connection gave its first reply: the server works.
    #[cold]
    pub(crate) fn proven(&self) {
        locked(&self.state).backoff.reset();
    }

    /// The connection broke. The next call dials anew, at once if the server ever answered on it.
    #[cold]
    pub(crate) fn lost(&self, link: &Arc<Link>, why: Option<Error>) {
        let mut state = locked(&self.state);
        if state.is_up_with(link) {
            state.phase = Phase::Down;
            if !link.is_proven() {
                state.backoff.failed(Instant::now(), broken(why));
            }
        }
    }

    /// The connection hangs: the next call dials anew, while the old one gets the undos that
    /// belong behind its doubtful acquires.
    #[cold]
    pub(crate) fn replace(&self, link: &Arc<Link>) {
        let mut state = locked(&self.state);
        if !state.is_up_with(link) {
            return;
        }
        // Under the lock, so that no call takes the new connection before this one has its undos.
        if let Some(lingering) = link.replace() {
            state.lingering.retain(|task| !task.is_finished());
            state.lingering.push_back(lingering.abort_handle());
            if state.lingering.len() > LINGERING
                && let Some(oldest) = state.lingering.pop_front()
            {
                oldest.abort();
            }
        }
        state.phase = Phase::Down;
    }
}

impl State {
    fn is_up_with(&self, link: &Arc<Link>) -> bool {
        matches!(&self.phase, Phase::Up(current) if Arc::ptr_eq(current, link))
    }

    /// There is no way to ask whether a runtime has timers: tokio panics at the first one.
    #[cold]
    fn probe(&mut self, runtime: &Handle) -> Result<(), NodeError> {
        if catch_unwind(|| drop(sleep(Duration::ZERO))).is_err() {
            return Err(NodeError::not_sent(
                "needs a tokio runtime with its timers and IO enabled",
            ));
        }
        self.with_timers = Some(runtime.id());
        Ok(())
    }
}

/// Why there is a pause after a connection that was of no use.
fn broken(why: Option<Error>) -> NodeError {
    let error = NodeError::not_sent("the connection broke before any reply");
    match why {
        // A server of a cluster that is down ends each connection so.
        Some(why) => server_error(&why).unwrap_or_else(|| error.with_source(cause(why))),
        None => error,
    }
}

/// One attempt to connect, in a task of its own, so that it survives the caller who started it.
struct Dialing {
    connector: Weak<Connector>,
    number: u64,
}

impl Dialing {
    async fn run(self, settings: Arc<Settings>, connect_timeout: Duration) {
        let dialed = dial(&settings, connect_timeout).await;
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
        match dialed {
            Ok(Dialed { session, router }) => {
                let link = Arc::new(Link::new(session, Handle::current()));
                // Under the lock, so that the waiting calls leave before any that comes now.
                queue.send(&link);
                state.phase = Phase::Up(Arc::clone(&link));
                drop(state);
                // Not under the lock: the end of a runtime drops the task here, and reports it.
                report_end(&connector, &link, router);
            }
            Err(error) => {
                state.backoff.failed(Instant::now(), error.clone());
                queue.fail(&error);
            }
        }
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        // Not reached by a dialing that ended: its number is gone.
        self.end(Err(NodeError::not_sent(
            "the connect was cut off: its runtime ended",
        )));
    }
}

/// Has the end of a connection reported.
fn report_end(connector: &Arc<Connector>, link: &Arc<Link>, router: ConnectHandle) {
    let mut end = RouterEnd {
        connector: Arc::downgrade(connector),
        link: Arc::downgrade(link),
        why: None,
    };
    tokio::spawn(async move {
        if let Ok(Err(why)) = router.await {
            end.why = Some(why);
        }
        drop(end);
    });
}

/// Reports the end of a connection, whether it broke or its runtime ended.
struct RouterEnd {
    connector: Weak<Connector>,
    link: Weak<Link>,
    why: Option<Error>,
}

impl Drop for RouterEnd {
    fn drop(&mut self) {
        let Some(link) = self.link.upgrade() else {
            return;
        };
        if let Some(connector) = self.connector.upgrade() {
            connector.lost(&link, self.why.take());
        }
        link.end();
    }
}
