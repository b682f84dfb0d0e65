//! What a workload plays on, and how what it does comes into the ledger.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lock_core::runtime::{BoxFuture, Runtime};
use lock_core::{AcquireError, DistributedLock, LockRequest};

use super::calling::Calling;
use super::chance::Chance;
use super::marks::Mark;
use super::plan::Plan;
use super::shared::Shared;
use super::tasks::ClientId;
use super::tracked::Tracked;

/// A world with servers, clients and locks, ready for a [`Workload`](super::Workload).
pub struct Stage {
    pub(crate) shared: Arc<Shared>,
    /// What the seed stands for.
    pub plan: Plan,
    /// The clients.
    pub seats: Vec<Seat>,
}

/// One client of a stage. Clones are the same client.
#[derive(Clone)]
pub struct Seat {
    pub(crate) shared: Arc<Shared>,
    /// The client.
    pub client: ClientId,
    /// Its lock.
    pub locks: Arc<dyn DistributedLock>,
    /// Its runtime.
    pub runtime: Arc<dyn Runtime>,
    /// When work shall end, in true time.
    pub until: Duration,
}

impl Stage {
    /// A generator for the choices of a workload.
    #[must_use]
    pub fn chance(&self) -> Chance {
        self.shared.world().chance.fork()
    }

    /// Starts a worker of a client. The run does not end before all workers have.
    pub fn work(&self, seat: &Seat, work: impl Future<Output = ()> + Send + 'static) {
        let working = Working::new(&self.shared);
        let task: BoxFuture<'static, ()> = Box::pin(async move {
            work.await;
            drop(working);
        });
        self.shared.spawn(seat.client, task);
    }
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

impl Seat {
    /// Whether there is time for more work.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.shared.world().now < self.until
    }

    /// The same for work that goes on for a while after the faults have ended.
    pub(crate) fn goes_on_quietly(&self) -> bool {
        let world = self.shared.world();
        world.now < self.until + world.quiet_for
    }

    /// Sleeps by the client's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.runtime.sleep(duration).await;
    }

    /// Writes a line into the trace, if one is kept.
    pub fn note(&self, line: impl FnOnce() -> String) {
        let client = self.client.0;
        if self.shared.world().trace.is_on() {
            // Outside of the lock: the line may ask for the time.
            let line = line();
            self.shared
                .world()
                .note(|| format!("client {client}: {line}"));
        }
    }

    /// Counts something.
    pub fn mark(&self, mark: Mark) {
        self.shared.world().mark(mark);
    }

    /// Something is wrong.
    pub fn violation(&self, invariant: &'static str, text: String) {
        self.shared.world().ledger.violation(invariant, text);
    }

    /// Acquires and keeps account of it.
    ///
    /// # Errors
    ///
    /// As of the lock.
    pub async fn acquire(&self, request: &LockRequest) -> Result<Tracked, AcquireError> {
        let call = Calling::new(self, request);
        let result = self.locks.acquire(request).await;
        call.end(result.as_ref().map(|_| ()));
        result.map(|guard| Tracked::new(self, guard))
    }

    /// Acquires without waiting, and keeps account of it.
    ///
    /// # Errors
    ///
    /// As of the lock.
    pub async fn try_acquire(
        &self,
        request: &LockRequest,
    ) -> Result<Option<Tracked>, AcquireError> {
        let call = Calling::new(self, request);
        let result = self.locks.try_acquire(request).await;
        match &result {
            Ok(Some(_)) => call.end(Ok(())),
            Ok(None) => call.taken(),
            Err(error) => call.end(Err(error)),
        }
        result.map(|guard| guard.map(|guard| Tracked::new(self, guard)))
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({})", self.client.0)
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
