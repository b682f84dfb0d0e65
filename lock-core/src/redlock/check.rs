//! The check: each node is asked what it is, and for a lock on a name that nobody else knows.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::calls::{Call, Calls, Done};
use super::engine::Engine;
use super::fanout::{FanOut, Operation, Rest};
use super::node::Nodes;
use super::protocol::{AcquireAnswer, Ballots, NodeSet, Step, described};
use crate::check::{CheckReport, ClockOffset, Examined, GuardUse, Probed, ServerInfo};
use crate::inspection::LockKey;
use crate::node::{Command, Keys, NodeError, NodeErrorKind, Operation as NodeOperation, Token};
use crate::runtime::Runtime;
use crate::ttl::Ttl;

/// What the name of the lock begins with that is asked for, behind the prefix of all locks.
const NAME: &[u8] = b"lock-check:";

/// How long that lock lives where its release does not arrive.
const TTL: Ttl = Ttl::FIVE_SECONDS;

/// The parts of the check of one node.
const DESCRIBE: usize = 0;
const PROBE: usize = 1;
const GUARD: usize = 2;
const RELEASE: usize = 3;

/// Asks all nodes, and waits for each as long as it may take.
pub(crate) async fn check(engine: &Arc<Engine>) -> CheckReport {
    let runtime = engine.settings().runtime();
    let checkup = Checkup::new(&engine.nodes, &runtime);
    let began = runtime.now();
    let mut fan_out = FanOut::new(checkup, &runtime, began);
    fan_out.decide().await;
    fan_out.add(|checkup, calls| checkup.release(calls));
    let until = runtime
        .now()
        .saturating_add(engine.settings().release_timeout());
    let is_open = |checkup: &Checkup| checkup.releases > 0;
    fan_out.finish_while(is_open, until).await;
    let examined = (0..engine.nodes.all.len()).map(|node| fan_out.operation.examined(node));
    CheckReport::new(engine.nodes.quorum().needed(), examined.collect())
}

/// A check under way.
struct Checkup {
    nodes: Arc<Nodes>,
    runtime: Arc<dyn Runtime>,
    keys: Keys,
    /// One for each node, so that a server that is listed twice is known by what it holds.
    tokens: Vec<Token>,
    asked_at: (SystemTime, Duration),
    descriptions: Ballots<Description>,
    probes: Ballots<AcquireAnswer>,
    /// Whether nodes have the key of a restart guard, where this process uses none.
    others_guard: Ballots<bool>,
    /// How long each node may take.
    allowed: Vec<Duration>,
    /// The nodes where the lock may be.
    touched: NodeSet,
    /// How many releases have no answer.
    releases: usize,
    is_released: bool,
}

#[derive(Clone, Debug)]
struct Description {
    server: ServerInfo,
    round_trip: Duration,
}

impl Checkup {
    fn new(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>) -> Self {
        let settings = &nodes.settings;
        let count = nodes.all.len();
        let token = || settings.token(&**runtime);
        let name = token();
        let key = [&settings.prefix[..], NAME, name.id().as_bytes()].concat();
        Self {
            nodes: Arc::clone(nodes),
            runtime: Arc::clone(runtime),
            keys: Keys::One(Arc::from(key)),
            tokens: (0..count).map(|_| token()).collect(),
            asked_at: (SystemTime::UNIX_EPOCH, Duration::ZERO),
            descriptions: Ballots::new(count),
            probes: Ballots::new(count),
            others_guard: Ballots::new(count),
            allowed: vec![Duration::ZERO; count],
            touched: NodeSet::EMPTY,
            releases: 0,
            is_released: false,
        }
    }

    /// Releases the lock wherever it may be, behind the commands that may have set it.
    fn release(&mut self, calls: &mut Calls) {
        self.is_released = true;
        let within = self.nodes.settings.release_timeout();
        for node in self.touched.iter() {
            let release = self.keys.release(self.tokens[node], Duration::ZERO);
            let within = self.nodes.within(node, within);
            self.push(node, RELEASE, Command::from(release), within, calls);
            self.releases += 1;
        }
    }

    fn push(
        &self,
        node: usize,
        part: usize,
        command: Command,
        within: Duration,
        calls: &mut Calls,
    ) {
        calls.push(Call {
            part,
            ..Call::other(&self.nodes, node, command, within)
        });
    }

    fn described(&self, done: Done) -> Result<Description, NodeError> {
        let described = described(&NodeOperation::Describe, &done.result?)?;
        let (wall, asked_at) = self.asked_at;
        let round_trip = self.runtime.now().saturating_sub(asked_at);
        let offset = ClockOffset::new(described.time, wall, round_trip);
        Ok(Description {
            server: ServerInfo::new(described, offset),
            round_trip,
        })
    }

    fn probed(&mut self, done: &Done) {
        let answer = done.acquire_answer();
        let is_nowhere = match &answer {
            Ok(answer) => !answer.is_granted(),
            Err(error) => error.kind() == NodeErrorKind::NotSent,
        };
        if is_nowhere {
            self.touched = self.touched.without(done.node);
        }
        self.probes.record(done.node, answer);
    }

    fn examined(&self, node: usize) -> Examined {
        let known_twin = self.nodes.all[node].twin_of();
        let lock = match (known_twin, self.probes.result(node)) {
            (Some(other), _) => Probed::Twin(Arc::clone(other)),
            (None, Ok(AcquireAnswer::Granted(_))) => Probed::Granted,
            (None, Ok(AcquireAnswer::Refused(holder))) => self.twin(holder),
            (None, Err(error)) => Probed::Failed(error),
        };
        let (server, round_trip) = match self.descriptions.result(node) {
            Ok(told) => (Ok(told.server), Some(told.round_trip)),
            Err(error) => (Err(error), None),
        };
        Examined {
            label: Arc::clone(&self.nodes.all[node].label),
            lock,
            server,
            round_trip,
            down_since: self.nodes.down_since(node),
            node_timeout: self.allowed[node],
            guard: match (&self.nodes.settings.guard, self.others_guard.answer(node)) {
                (Some(_), _) => GuardUse::Ours,
                (None, Some(true)) => GuardUse::OthersAlone,
                (None, _) => GuardUse::Nobody,
            },
        }
    }

    /// A node refused a lock on a name that nobody else knows.
    fn twin(&self, holder: Option<LockKey>) -> Probed {
        let token = holder.and_then(|holder| holder.token);
        let is_holder = |other: &Token| token.as_deref() == Some(other.as_bytes());
        match self.tokens.iter().position(is_holder) {
            Some(other) => Probed::Twin(Arc::clone(&self.nodes.all[other].label)),
            None => Probed::Failed(NodeError::not_sent("a new name is said to be held")),
        }
    }

    fn within(&self, node: usize) -> Duration {
        self.nodes.within(node, self.nodes.settings.node_timeout())
    }
}

impl Operation for Checkup {
    type Verdict = ();

    fn step(&self) -> Step<()> {
        let unasked = self.probes.unasked();
        if !unasked.is_empty() {
            return Step::Ask(unasked);
        }
        let deadlines = [
            self.descriptions.next_deadline(),
            self.others_guard.next_deadline(),
            self.probes.next_deadline(),
        ];
        match deadlines.into_iter().flatten().min() {
            Some(until) => Step::Wait(until),
            None => Step::Decided(()),
        }
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        self.asked_at = (self.runtime.system_time(), now);
        let describe = Command::from(NodeOperation::Describe);
        for node in nodes.iter() {
            let within = self.within(node);
            self.allowed[node] = within;
            self.descriptions.ask(node, now, within);
            self.push(node, DESCRIBE, describe.clone(), within, calls);
            self.probes.ask(node, now, within);
            self.touched = self.touched.with(node);
            let probe = self.keys.acquire(self.tokens[node], TTL, true);
            if self.nodes.settings.guard.is_none() {
                let key = self.nodes.settings.guard_key();
                let inspect = Command::from(NodeOperation::Inspect { key });
                self.others_guard.ask(node, now, within);
                self.push(node, GUARD, inspect, within, calls);
            }
            let probe = probe.guarded_by(self.nodes.settings.guard.as_ref());
            self.push(node, PROBE, Command::from(probe), within, calls);
        }
    }

    fn take(&mut self, done: Done, _calls: &mut Calls) {
        match done.part {
            DESCRIBE => {
                let node = done.node;
                let described = self.described(done);
                self.descriptions.record(node, described);
            }
            GUARD => {
                let found = done.inspected().map(|found| found.is_some());
                self.others_guard.record(done.node, found);
            }
            PROBE => self.probed(&done),
            // Without an answer the ttl ends it.
            _ => self.releases -= 1,
        }
    }

    fn pass_time(&mut self, now: Duration, _calls: &mut Calls) {
        self.descriptions.expire(now);
        self.others_guard.expire(now);
        self.probes.expire(now);
    }

    fn leave(&mut self, calls: &mut Calls) -> Rest {
        if !self.is_released {
            self.release(calls);
        }
        Box::new(|_, _| ())
    }
}
