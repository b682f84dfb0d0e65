//! [`SimClient`]: a client process of a run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lock_core::runtime::{BoxFuture, Runtime};
use lock_core::{DistributedLock, Redlock};

use super::chance::Chance;
use super::coverage::Mark;
use super::node::SimNode;
use super::shared::Shared;
use super::tasks::ClientId;

/// A client process of a run, with its lock. Clones stand for the same process.
#[derive(Clone)]
pub struct SimClient {
    pub(crate) shared: Arc<Shared>,
    /// The number of the client.
    pub id: ClientId,
    /// Its lock.
    pub locks: Arc<dyn DistributedLock>,
    /// The same lock as a [`Redlock`], for leases and shutdowns; `None` if it is a lock of another
    /// kind.
    pub redlock: Option<Redlock<SimNode>>,
    /// Its runtime.
    pub runtime: Arc<dyn Runtime>,
    /// When work shall end, in true time.
    pub until: Duration,
}

/// Counts a worker until it ends or is killed.
struct Working(Arc<Shared>);

impl Working {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.world().workers += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.world().workers -= 1;
    }
}

impl SimClient {
    /// Starts a worker of this client. The run does not end before all workers have ended.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let working = Working::new(&self.shared);
        let task: BoxFuture<'static, ()> = Box::pin(async move {
            work.await;
            drop(working);
        });
        self.shared.spawn(self.id, task);
    }

    /// Returns whether there is time for more work.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.shared.world().now < self.until
    }

    /// Pauses for a random time. Returns whether there is time for more work then.
    pub async fn next_round(&self, chance: &mut Chance, longest: Duration) -> bool {
        self.sleep(chance.duration(Duration::ZERO, longest)).await;
        self.goes_on()
    }

    /// Returns the same for work that goes on for a while after the faults have ended.
    pub(crate) fn goes_on_quietly(&self) -> bool {
        let world = self.shared.world();
        world.now < self.until + world.quiet_for
    }

    /// Sleeps for this long by the client's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.runtime.sleep(duration).await;
    }

    /// Writes a line to the trace, if one is kept.
    pub fn note(&self, line: impl FnOnce() -> String) {
        let client = self.id.0;
        if self.shared.world().trace.is_on() {
            // Outside of the lock: the line may ask for the time.
            let line = line();
            self.shared
                .world()
                .note(|| format!("client {client}: {line}"));
        }
    }

    /// Counts an event.
    pub fn mark(&self, mark: Mark) {
        self.shared.world().mark(mark);
    }

    /// Records that an invariant does not hold.
    pub fn violation(&self, invariant: &'static str, text: String) {
        self.shared.world().ledger.violation(invariant, text);
    }
}

impl fmt::Debug for SimClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimClient({})", self.id.0)
    }
}
