//! What a workload plays on, and how what it does comes into the ledger.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::chance::Chance;
use super::client::SimClient;
use super::plan::Plan;
use super::shared::Shared;

/// A world with servers, clients and locks, ready for a [`Workload`](super::Workload).
pub struct WorkloadCx {
    pub(crate) shared: Arc<Shared>,
    /// What the seed stands for.
    pub plan: Plan,
    /// The clients.
    pub clients: Vec<SimClient>,
}

impl WorkloadCx {
    /// A generator for the choices of a workload.
    #[must_use]
    pub fn chance(&self) -> Chance {
        self.shared.world().chance.fork()
    }

    /// Starts a worker of each client, so many times.
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
