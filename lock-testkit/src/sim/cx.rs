//! [`WorkloadCx`]: what a workload works with.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::chance::Chance;
use super::client::SimClient;
use super::plan::Plan;
use super::shared::Shared;

/// What a [`Workload`](super::Workload) works with: the clients of a run, and their locks.
pub struct WorkloadCx {
    pub(crate) shared: Arc<Shared>,
    /// The plan of the run.
    pub plan: Plan,
    /// The clients.
    pub clients: Vec<SimClient>,
}

impl WorkloadCx {
    /// Makes a generator for the choices of a workload.
    #[must_use]
    pub fn chance(&self) -> Chance {
        self.shared.world().chance.fork()
    }

    /// Starts workers of each client: `times` says how many, `worker` makes one.
    pub fn each<W: Future<Output = ()> + Send + 'static>(
        &self,
        chance: &mut Chance,
        times: impl Fn(&mut Chance) -> usize,
        worker: impl Fn(SimClient, Plan, Chance) -> W,
    ) {
        for client in &self.clients {
            for _ in 0..times(chance) {
                let worker = worker(client.clone(), self.plan.clone(), chance.fork());
                client.spawn(worker);
            }
        }
    }
}

impl fmt::Debug for WorkloadCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadCx")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
