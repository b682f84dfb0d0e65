//! [`Scenario`]: what runs are made of.

use std::fmt;
use std::sync::Arc;

use lock_core::{DistributedLock, Redlock};

use super::client::SimClient;
use super::cx::WorkloadCx;
use super::invariant::{self, Invariant};
use super::nemesis::Nemesis;
use super::node::SimNode;
use super::outcome::Outcome;
use super::plan::Plan;
use super::run::Run;
use super::server::Server;
use super::simulation::Sim;
use super::tasks::ClientId;
use super::workload::{self, Workload};

/// Makes the lock of a client.
pub type MakeLock = dyn Fn(&Sim, ClientId, &Plan) -> Arc<dyn DistributedLock> + Send + Sync;

/// What runs are made of: by default this crate's workloads and invariants, and [`Redlock`].
pub struct Scenario {
    workloads: Vec<Box<dyn Workload>>,
    invariants: Vec<Box<dyn Invariant>>,
    make_lock: Option<Box<MakeLock>>,
    traced: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            workloads: workload::all(),
            invariants: invariant::all(),
            make_lock: None,
            traced: false,
        }
    }
}

impl Scenario {
    /// Makes a scenario of this crate's workloads and invariants, over [`Redlock`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tests the lock that `make` makes for each client.
    #[must_use]
    pub fn lock(
        mut self,
        make: impl Fn(&Sim, ClientId, &Plan) -> Arc<dyn DistributedLock> + Send + Sync + 'static,
    ) -> Self {
        self.make_lock = Some(Box::new(make));
        self
    }

    /// Runs these workloads instead, one of them for each seed.
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
        let cx = self.set_up(&sim, &plan);
        Nemesis::start(&plan, &mut sim.shared.world());
        workload.start(&cx);
        let mut run = Run { sim, cx };
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

    fn locks(
        &self,
        sim: &Sim,
        client: ClientId,
        plan: &Plan,
    ) -> (Arc<dyn DistributedLock>, Option<Redlock<SimNode>>) {
        match &self.make_lock {
            Some(make) => (make(sim, client, plan), None),
            None => {
                let redlock = redlock(sim, client, plan);
                (Arc::new(redlock.clone()), Some(redlock))
            }
        }
    }

    fn set_up(&self, sim: &Sim, plan: &Plan) -> WorkloadCx {
        let keeps_snapshots = plan.faults.iter().any(|kind| kind.forgets());
        for _ in 0..plan.servers {
            sim.add_server(plan.server_rate_ppb, keeps_snapshots);
        }
        if plan.has_guard {
            let mut world = sim.shared.world();
            world.servers.iter_mut().for_each(Server::bootstrap);
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
            world.has_guard = plan.has_guard;
            world.ledger.clocks_failed = !plan.rates_are_fine;
            let summary = format!("{plan:?}");
            world.note(|| summary);
        }
        let clients = clients.into_iter().map(|id| {
            let (locks, redlock) = self.locks(sim, id, plan);
            SimClient {
                shared: Arc::clone(&sim.shared),
                id,
                locks,
                redlock,
                runtime: sim.runtime(id),
                until: plan.duration,
            }
        });
        WorkloadCx {
            shared: Arc::clone(&sim.shared),
            clients: clients.collect(),
            plan: plan.clone(),
        }
    }
}

/// The lock under test: the production engine over the client's nodes.
fn redlock(sim: &Sim, client: ClientId, plan: &Plan) -> Redlock<SimNode> {
    match plan.redlock(sim, client, sim.nodes(client)).build() {
        Ok(locks) => locks,
        // A plan that no lock can be built of is a mistake of this crate.
        Err(error) => panic!("{error}: {plan:?}"),
    }
}

/// Runs the plan of a seed with this crate's workloads, invariants and lock.
#[must_use]
pub fn run_seed(seed: u64) -> Outcome {
    Scenario::new().run(Plan::new(seed))
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
