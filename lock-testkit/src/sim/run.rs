//! One seed, from its plan to its judgement.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{AcquireError, DistributedLock, LockRequest, Redlock};

use super::invariant::{self, Invariant};
use super::ledger::{AttemptFacts, Leftover, Violation};
use super::marks::{Mark, Marks};
use super::nemesis::Nemesis;
use super::plan::Plan;
use super::server::ServerId;
use super::simulation::Sim;
use super::stage::{Seat, Stage};
use super::tasks::ClientId;
use super::workload::{self, Workload};

/// How long after all work and all faults everything must be tidy: releases that are owed are sent
/// again at least once a second, and a connect takes a second at most.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// Makes the lock of a client.
pub type MakeLock = dyn Fn(&Sim, ClientId, &Plan) -> Arc<dyn DistributedLock> + Send + Sync;

/// What runs are made of: by default this crate's workloads and invariants, and [`Redlock`].
pub struct Scenario {
    workloads: Vec<Box<dyn Workload>>,
    invariants: Vec<Box<dyn Invariant>>,
    make_lock: Box<MakeLock>,
    traced: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            workloads: workload::all(),
            invariants: invariant::all(),
            make_lock: Box::new(redlock),
            traced: false,
        }
    }
}

impl Scenario {
    /// This crate's workloads and invariants, over [`Redlock`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tests another lock.
    #[must_use]
    pub fn lock(
        mut self,
        make: impl Fn(&Sim, ClientId, &Plan) -> Arc<dyn DistributedLock> + Send + Sync + 'static,
    ) -> Self {
        self.make_lock = Box::new(make);
        self
    }

    /// Runs these workloads instead, one for each seed.
    #[must_use]
    pub fn workloads(mut self, workloads: Vec<Box<dyn Workload>>) -> Self {
        self.workloads = workloads;
        self
    }

    /// Judges by these invariants instead.
    #[must_use]
    pub fn invariants(mut self, invariants: Vec<Box<dyn Invariant>>) -> Self {
        self.invariants = invariants;
        self
    }

    /// Keeps a readable trace of each run.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// Runs a plan to its end and judges it.
    #[must_use]
    pub fn run(&self, plan: Plan) -> Outcome {
        let sim = Sim::build(plan.seed, self.traced);
        let workload = self.workload(&plan);
        let stage = self.set_up(&sim, &plan);
        Nemesis::start(&plan, &mut sim.shared.world());
        workload.start(&stage);
        let mut run = Run { sim, stage };
        run.work();
        run.tidy();
        run.probe();
        run.end(workload.name(), &self.invariants)
    }

    fn workload(&self, plan: &Plan) -> &dyn Workload {
        let mut workloads = self.workloads.iter().map(|workload| &**workload);
        if let Some(workload) = workloads.find(|it| Some(it.name()) == plan.workload_named) {
            return workload;
        }
        let count = self.workloads.len().max(1) as u64;
        let index = usize::try_from(plan.workload % count).unwrap_or_default();
        &*self.workloads[index]
    }

    fn set_up(&self, sim: &Sim, plan: &Plan) -> Stage {
        let keeps_snapshots = plan.faults.iter().any(|kind| kind.forgets());
        for _ in 0..plan.servers {
            sim.add_server(plan.server_rate_ppb, keeps_snapshots);
        }
        let mut clients = Vec::new();
        for _ in 0..plan.clients {
            let skew = i64::try_from(plan.skew.as_nanos()).unwrap_or(i64::MAX);
            let error = sim.shared.world().chance.between(-skew, skew);
            clients.push(sim.add_client_with(plan.client_rate_ppb, error));
        }
        {
            let mut world = sim.shared.world();
            world.quorum = plan.quorum;
            world.ledger.clocks_failed = !plan.rates_are_fine;
            let summary = format!("{plan:?}");
            world.note(|| summary);
        }
        let seats = clients.into_iter().map(|client| Seat {
            shared: Arc::clone(&sim.shared),
            client,
            locks: (self.make_lock)(sim, client, plan),
            runtime: sim.runtime(client),
            until: plan.duration,
        });
        Stage {
            shared: Arc::clone(&sim.shared),
            seats: seats.collect(),
            plan: plan.clone(),
        }
    }
}

/// The lock under test: the production engine over the client's nodes.
fn redlock(sim: &Sim, client: ClientId, plan: &Plan) -> Arc<dyn DistributedLock> {
    let built = Redlock::builder()
        .nodes(sim.nodes(client))
        .runtime(sim.runtime(client))
        .quorum(plan.quorum)
        .ttl(plan.ttl)
        .drift_factor(plan.drift_factor)
        .build();
    match built {
        Ok(locks) => Arc::new(locks),
        // A plan that no lock can be built of is a mistake of this crate.
        Err(error) => panic!("{error}: {plan:?}"),
    }
}

/// Runs the plan of a seed with this crate's workloads, invariants and lock.
#[must_use]
pub fn run_seed(seed: u64) -> Outcome {
    Scenario::new().run(Plan::new(seed))
}

/// What came of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What it was.
    pub plan: Plan,
    /// The workload that ran.
    pub workload: &'static str,
    /// What happened how often.
    pub marks: Marks,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// The hash of all events.
    pub hash: u64,
    /// How much true time went by in it.
    pub simulated: Duration,
    /// Whether it stayed within the assumptions under which exclusion is promised.
    pub within_budget: bool,
    /// Whether a server forgot anything.
    pub forgot: bool,
    /// What happened, for people; empty unless a trace was kept.
    pub trace: Vec<String>,
}

struct Run {
    sim: Sim,
    stage: Stage,
}

impl Run {
    /// Lets faults and work go on to their end.
    fn work(&mut self) {
        let plan = &self.stage.plan;
        self.sim.run_until(plan.duration);
        let limit = plan.duration + plan.ttl * 5 + Duration::from_secs(150);
        while self.sim.shared.world().workers > 0 {
            if self.sim.now() >= limit {
                let workers = self.sim.shared.world().workers;
                self.violation("liveness", format!("{workers} workers never ended"));
                return;
            }
            self.sim.run_for(Duration::from_secs(1));
        }
    }

    /// Looks for keys that should not be there any more.
    fn tidy(&mut self) {
        self.sim.run_for(TIDY_WITHIN);
        self.look_for_leftovers();
    }

    fn look_for_leftovers(&self) {
        let mut world = self.sim.shared.world();
        let now = world.now;
        for server in 0..world.servers.len() {
            for (key, fact, left) in world.servers[server].keys(now) {
                let excused = fact.is_some_and(|fact| {
                    let age = now.saturating_sub(fact.refreshed_at);
                    // A release that is owed is given up when the ttl has passed by the client's
                    // clock, a little sooner perhaps than by the server's.
                    fact.is_ghost || fact.is_kept || age >= fact.ttl.mul_f64(0.9)
                });
                let attempt = fact.and_then(|fact| world.ledger.attempt(&fact.token));
                let excused = excused
                    || attempt.is_some_and(|attempt| {
                        world.clients[attempt.client.0].is_dead
                            || world.ledger.kept.contains(&attempt.token)
                    });
                if !excused {
                    world.ledger.leftovers.push(Leftover {
                        server: ServerId(server),
                        key,
                        token: fact.map(|fact| fact.token),
                        left,
                    });
                }
            }
        }
    }

    /// Every client that is alive must get every lock, once what may be left has ended.
    fn probe(&mut self) {
        let left = self.longest_left();
        self.sim.run_for(left + Duration::from_millis(10));
        let plan = self.stage.plan.clone();
        let bound = Duration::from_secs(2) + plan.node_timeout() * 10;
        for seat in self.stage.seats.clone() {
            if self.sim.shared.world().clients[seat.client.0].is_dead {
                continue;
            }
            for resource in 0..plan.resources {
                let seat = seat.clone();
                let request = LockRequest::new(format!("lock-{resource}")).max_wait(bound);
                self.stage.work(&seat.clone(), async move {
                    match seat.locks.acquire(&request).await {
                        Ok(guard) => drop(guard.release().await),
                        Err(error) => seat.no_lock(&error),
                    }
                });
                self.sim.run_for(bound * 2);
            }
        }
        self.sim.run_for(TIDY_WITHIN);
        self.look_for_leftovers();
        self.look_for_loose_ends();
    }

    fn longest_left(&self) -> Duration {
        let mut world = self.sim.shared.world();
        let now = world.now;
        let servers = world.servers.iter_mut();
        let left = servers.flat_map(|server| server.keys(now));
        left.map(|(_, _, left)| left).max().unwrap_or_default()
    }

    /// Tasks and calls that never come to their end.
    fn look_for_loose_ends(&self) {
        for seat in &self.stage.seats {
            let alive = self.sim.tasks_alive(seat.client);
            let is_dead = self.sim.shared.world().clients[seat.client.0].is_dead;
            if alive > 0 && !is_dead {
                let client = seat.client.0;
                self.violation("bounds", format!("{alive} tasks of client {client} go on"));
            }
        }
        let in_flight: usize = {
            let world = self.sim.shared.world();
            world
                .endpoints
                .iter()
                .map(|endpoint| endpoint.in_flight)
                .sum()
        };
        if in_flight > 0 {
            self.violation("bounds", format!("{in_flight} calls never ended"));
        }
    }

    fn violation(&self, invariant: &'static str, text: String) {
        self.sim.shared.world().ledger.violation(invariant, text);
    }

    fn end(self, workload: &'static str, invariants: &[Box<dyn Invariant>]) -> Outcome {
        let Self { sim, stage } = self;
        let plan = stage.plan.clone();
        let peak_tasks = sim.shared.tasks().peak();
        let mut world = sim.shared.world();
        let world = &mut *world;
        let ledger = &mut world.ledger;
        ledger.peak_tasks = peak_tasks;
        let peaks = world.endpoints.iter().map(|endpoint| endpoint.peak);
        ledger.peak_in_flight = peaks.max().unwrap_or_default();
        mark_resolved(ledger, &plan);
        let excused = invariant::excused_overlaps(&plan, ledger);
        for _ in 0..excused {
            ledger.mark(Mark::ExcusedOverlap);
        }
        let mut violations = std::mem::take(&mut ledger.violations);
        for invariant in invariants {
            invariant.judge(&plan, ledger, &mut violations);
        }
        Outcome {
            workload,
            marks: ledger.marks.clone(),
            violations,
            hash: world.hash.value(),
            simulated: world.now,
            forgot: !ledger.forgettings.is_empty(),
            within_budget: ledger.is_within_budget(&plan),
            trace: world.trace.take(),
            plan,
        }
    }
}

impl Seat {
    fn no_lock(&self, error: &AcquireError) {
        let client = self.client.0;
        self.violation(
            "liveness",
            format!("client {client} cannot acquire: {error}"),
        );
    }
}

/// Counts calls that were won after an attempt that had shared the votes with a rival, or had met
/// a holder.
fn mark_resolved(ledger: &mut super::ledger::Ledger, plan: &Plan) {
    use super::ledger::{CallResult, Told};
    let mut by_key: HashMap<(ClientId, &[u8]), Vec<&AttemptFacts>> = HashMap::new();
    for attempt in &ledger.attempts {
        let key = (attempt.client, &attempt.key[..]);
        by_key.entry(key).or_default().push(attempt);
    }
    let (mut splits, mut waits) = (0, 0);
    for call in &ledger.calls {
        if call.result != CallResult::Acquired {
            continue;
        }
        let attempts = by_key
            .get(&(call.client, &call.key[..]))
            .into_iter()
            .flatten();
        let during =
            |attempt: &&&AttemptFacts| (call.began..=call.ended).contains(&attempt.started);
        let told = |attempt: &AttemptFacts, told: Told| {
            let dealings = &attempt.dealings[..plan.servers];
            dealings
                .iter()
                .filter(|dealing| dealing.told == told)
                .count()
        };
        let (mut split, mut wait) = (false, false);
        for attempt in attempts.filter(during) {
            let (granted, refused) = (told(attempt, Told::Granted), told(attempt, Told::Refused));
            split |= granted > 0 && refused > 0 && granted < plan.quorum;
            wait |= refused >= plan.quorum;
        }
        splits += usize::from(split);
        waits += usize::from(wait);
    }
    for _ in 0..splits {
        ledger.mark(Mark::SplitResolved);
    }
    for _ in 0..waits {
        ledger.mark(Mark::WaitedOut);
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workloads = self.workloads.iter().map(|workload| workload.name());
        let invariants = self.invariants.iter().map(|invariant| invariant.name());
        f.debug_struct("Scenario")
            .field("workloads", &workloads.collect::<Vec<_>>())
            .field("invariants", &invariants.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
