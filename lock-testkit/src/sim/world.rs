//! The state of a simulation, but for its tasks.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures::channel::oneshot;
use lock_core::node::{Operation, Token};

use super::chance::Chance;
use super::clock::Clock;
use super::coverage::Mark;
use super::facts::Effect;
use super::fault::FaultKind;
use super::fences::Registers;
use super::hash::EventHash;
use super::ledger::{DataLoss, Ledger};
use super::network::rules::NetworkRules;
use super::network::{Endpoint, EndpointId, Link};
use super::operation::{keys_of, locks_of};
use super::queue::{Event, EventQueue};
use super::server::{Server, ServerId};
use super::tasks::ClientId;
use super::trace::Trace;

/// Hands a value to a task that waits for it.
pub(crate) type Delivery = Box<dyn FnOnce() + Send>;

/// A client process, with clocks of its own.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) monotonic: Clock,
    pub(crate) wall: Clock,
    /// When the wall clock jumped last, or the monotonic one fell behind it: that may end locks.
    pub(crate) wall_set_at: Duration,
    pub(crate) is_paused: bool,
    /// When its last pause ended, or ends.
    pub(crate) paused_until: Duration,
    /// When its lock was shut down.
    pub(crate) shut_at: Option<Duration>,
    pub(crate) is_dead: bool,
    /// Tasks that became ready while it was paused.
    pub(crate) held_back: VecDeque<usize>,
}

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) queue: EventQueue,
    pub(crate) chance: Chance,
    pub(crate) hash: EventHash,
    pub(crate) trace: Trace,
    pub(crate) clients: Vec<Client>,
    pub(crate) servers: Vec<Server>,
    /// One for each pair of client and server.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) links: Vec<Link>,
    pub(crate) rules: NetworkRules,
    pub(crate) ledger: Ledger,
    pub(crate) registers: Registers,
    /// Carried out as soon as the world's lock is released, since tasks are woken and dropped by
    /// it.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) doomed: Vec<ClientId>,
    pub(crate) resumed: Vec<ClientId>,
    /// The task that is polled, and those of connections that stand still.
    pub(crate) polled: usize,
    pub(crate) stalled: BTreeSet<usize>,
    /// Tasks that go on.
    pub(crate) going_on: VecDeque<usize>,
    /// How long a client waits for an answer over a connection that stands still.
    pub(crate) patience: Duration,
    /// How many workers have not ended.
    pub(crate) workers: usize,
    /// How long some work goes on after the faults have ended.
    pub(crate) quiet_for: Duration,
    /// Whether all clients acquire several locks together when all faults have ended.
    pub(crate) is_pairing: bool,
    /// How many servers must agree.
    pub(crate) quorum: usize,
    /// Locks have a restart guard.
    pub(crate) has_guard: bool,
    /// How far a client's wall clock may be off.
    pub(crate) skew: Duration,
    /// The moment at which all faults end.
    pub(crate) faults_end: Duration,
    /// The simulation is over: no task is spawned any more.
    pub(crate) has_ended: bool,
}

impl World {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        Self {
            now: Duration::ZERO,
            queue: EventQueue::default(),
            chance: Chance::new(seed),
            hash: EventHash::new(),
            trace: Trace::new(traced),
            clients: Vec::new(),
            servers: Vec::new(),
            endpoints: Vec::new(),
            links: Vec::new(),
            rules: NetworkRules::default(),
            ledger: Ledger::default(),
            registers: Registers::default(),
            deliveries: Vec::new(),
            doomed: Vec::new(),
            resumed: Vec::new(),
            polled: 0,
            stalled: BTreeSet::new(),
            going_on: VecDeque::new(),
            patience: Duration::from_secs(1),
            workers: 0,
            quiet_for: Duration::ZERO,
            is_pairing: false,
            quorum: 0,
            has_guard: false,
            skew: Duration::ZERO,
            faults_end: Duration::MAX,
            has_ended: false,
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.push(self.now, line);
    }

    pub(crate) fn mark(&mut self, mark: Mark) {
        self.ledger.mark(mark);
    }

    /// Changes the world at a true moment, which is not in the past.
    pub(crate) fn at(&mut self, at: Duration, act: impl FnOnce(&mut Self) + Send + 'static) {
        self.queue.push(at.max(self.now), Event::Act(Box::new(act)));
    }

    /// Changes the world after this much true time.
    pub(crate) fn after(&mut self, pause: Duration, act: impl FnOnce(&mut Self) + Send + 'static) {
        self.at(self.now.saturating_add(pause), act);
    }

    /// Hands a value to a task, if it still waits for it.
    pub(crate) fn deliver<T: Send + 'static>(&mut self, to: oneshot::Sender<T>, what: T) {
        self.deliveries.push(Box::new(|| drop(to.send(what))));
    }

    pub(crate) fn happen(&mut self, at: Duration, event: Event) {
        self.now = self.now.max(at);
        self.hash
            .add(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
        self.hash.add(event.code());
        match event {
            Event::Timer(timer) => self.deliver(timer, ()),
            Event::Request(link) => self.request_arrives(link),
            Event::Reply(link) => self.reply_arrives(link),
            Event::Connect(endpoint, dial) => self.connect_goes_on(endpoint, dial),
            Event::Act(act) => act(self),
        }
    }

    pub(crate) fn monotonic(&self, client: ClientId) -> Duration {
        self.clients[client.0].monotonic.at(self.now)
    }

    /// Runs a command at a server. `is_stray` says that no caller waits for its answer.
    pub(crate) fn run_at_server(
        &mut self,
        server: ServerId,
        operation: &Operation,
        with_source: bool,
        is_stray: bool,
    ) -> Result<lock_core::Reply, lock_core::NodeError> {
        let now = self.now;
        let (reply, effect) = self.servers[server.0].run(operation, with_source, now);
        self.hash.add(((server.0 as u64) << 8) | effect as u64);
        if let Ok(reply) = &reply
            && let found = &mut self.servers[server.0]
            && found.counted.note(operation, reply, effect == Effect::Set)
            && let Operation::Acquire { token, .. } = operation
        {
            self.note_went_back(server, *token);
        }
        if is_stray {
            self.mark(Mark::Stray);
            if effect == Effect::Set {
                self.excuse(server, &locks_of(operation));
                self.mark(Mark::Ghost);
            }
        }
        if effect == Effect::Set {
            self.excuse_late(server, operation);
        }
        if effect == Effect::Kept {
            self.mark(Mark::Kept);
        }
        if matches!(effect, Effect::Set | Effect::Extended | Effect::Kept) {
            for key in keys_of(operation) {
                self.judge_lifetime(server, key);
            }
        }
        if self.trace.is_on() {
            let stray = if is_stray { " (stray)" } else { "" };
            self.note(|| {
                let locks = locks_of(operation);
                let tokens = locks.iter().map(|(token, _)| &token.as_str()[..8]);
                format!(
                    "node {} runs{stray} {} of {}: {}",
                    server.0,
                    operation.name(),
                    tokens.collect::<Vec<_>>().join(" "),
                    show(&reply),
                )
            });
        }
        reply
    }

    /// Excuses the keys of locks that were handed over, resumed and released, if a command of the
    /// first owner sets them only now: neither of the two owners can know.
    fn excuse_late(&mut self, server: ServerId, operation: &Operation) {
        let mut locks = locks_of(operation);
        locks.retain(|(token, _)| {
            let attempt = self.ledger.attempt(token);
            attempt.is_some_and(|it| it.leased_until.is_some() && it.ended_at.is_some())
        });
        self.excuse(server, &locks);
    }

    /// Records that no client can know of the keys of these locks.
    fn excuse(&mut self, server: ServerId, locks: &[(Token, Vec<&[u8]>)]) {
        for (token, keys) in locks {
            for key in keys {
                self.servers[server.0].facts.excuse(key, token);
            }
        }
    }

    /// Judges the lifetime of a key.
    fn judge_lifetime(&mut self, server: ServerId, key: &[u8]) {
        if let Some(text) = self.servers[server.0].outlived(key, self.now) {
            let text = format!("node {}: {text}", server.0);
            self.ledger.violation("lifetime", text);
        }
    }

    /// Records that a server lost keys, or ended them early: it counts against the fault budget.
    pub(crate) fn forgets(&mut self, server: ServerId, by: FaultKind) {
        let (at, is_guarded) = (self.now, self.has_guard && by.is_guarded());
        let loss = DataLoss {
            at,
            server,
            is_guarded,
        };
        self.ledger.data_losses.push(loss);
    }

    pub(crate) fn endpoint_id(&self, client: ClientId, server: ServerId) -> EndpointId {
        EndpointId::new(client, server)
    }
}

fn show(reply: &Result<lock_core::Reply, lock_core::NodeError>) -> String {
    use lock_core::Reply;
    match reply {
        Ok(Reply::Nil) => "nil".to_owned(),
        Ok(Reply::Int(code)) => code.to_string(),
        Ok(Reply::Bytes(bytes)) => String::from_utf8_lossy(bytes).chars().take(8).collect(),
        Ok(Reply::Array(items)) => {
            let items = items.iter().map(|item| show(&Ok(item.clone())));
            format!("[{}]", items.collect::<Vec<_>>().join(" "))
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => error.code().unwrap_or("error").to_owned(),
    }
}
