//! What a workload plays on, and how what it does comes into the ledger.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lock_core::runtime::{BoxFuture, Runtime};
use lock_core::{
    AcquireError, DistributedLock, Lease, LockRequest, Redlock, ResumeError, ShutdownError,
};

use super::calling::Calling;
use super::chance::Chance;
use super::marks::Mark;
use super::node::SimNode;
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
    /// The same with what only a [`Redlock`] can do, if it is one.
    pub redlock: Option<Redlock<SimNode>>,
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

    /// Starts a worker of each client, so many times.
    pub fn each<W: Future<Output = ()> + Send + 'static>(
        &self,
        chance: &mut Chance,
        times: impl Fn(&mut Chance) -> usize,
        worker: impl Fn(Seat, Plan, Chance) -> W,
    ) {
        for seat in &self.seats {
            for _ in 0..times(chance) {
                let worker = worker(seat.clone(), self.plan.clone(), chance.fork());
                self.work(seat, worker);
            }
        }
    }

    /// Starts a worker of a client. The run does not end before all workers have.
    pub fn work(&self, seat: &Seat, work: impl Future<Output = ()> + Send + 'static) {
        seat.work(work);
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
    /// Starts a worker of this client. The run does not end before all workers have.
    pub fn work(&self, work: impl Future<Output = ()> + Send + 'static) {
        let working = Working::new(&self.shared);
        let task: BoxFuture<'static, ()> = Box::pin(async move {
            work.await;
            drop(working);
        });
        self.shared.spawn(self.client, task);
    }

    /// Whether there is time for more work.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.shared.world().now < self.until
    }

    /// Pauses for a random time; whether there is time for more work then.
    pub async fn next_round(&self, chance: &mut Chance, longest: Duration) -> bool {
        self.sleep(chance.duration(Duration::ZERO, longest)).await;
        self.goes_on()
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
        let began = call.began;
        let result = self.locks.acquire(request).await;
        call.end(result.as_ref().map(|_| ()));
        result.map(|guard| Tracked::new(self, guard, request, began))
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
        let began = call.began;
        let result = self.locks.try_acquire(request).await;
        match &result {
            Ok(Some(_)) => call.end(Ok(())),
            Ok(None) => call.taken(),
            Err(error) => call.end(Err(error)),
        }
        result.map(|guard| guard.map(|guard| Tracked::new(self, guard, request, began)))
    }

    /// Goes on with a lock that was handed over, and judges what comes of it. `None` if this is no
    /// [`Redlock`].
    pub async fn resume(&self, lease: &Lease) -> Option<Result<Tracked, ResumeError>> {
        let redlock = self.redlock.as_ref()?;
        let (began, before) = {
            let mut world = self.shared.world();
            (world.now, world.begin_resume(lease))
        };
        let result = redlock.resume(lease).await;
        let mut world = self.shared.world();
        world.judge_resume(self.client, before, result.as_ref());
        drop(world);
        let request = LockRequest::many(lease.resources()).ttl(lease.ttl());
        Some(result.map(|guard| Tracked::new(self, guard, &request, began)))
    }

    /// Shuts this client's lock down, and judges what comes of it. `None` if this is no
    /// [`Redlock`].
    pub async fn shut_down(&self, within: Duration) -> Option<Result<(), ShutdownError>> {
        let redlock = self.redlock.as_ref()?;
        let began = self.shared.world().shut_down(self.client);
        let result = redlock.shutdown_within(within).await;
        self.note(|| format!("shutdown ended: {result:?}"));
        self.mark(match result {
            Ok(()) => Mark::ShutdownDone,
            Err(_) => Mark::ShutdownFailed,
        });
        if result.is_ok() {
            let mut world = self.shared.world();
            world.judge_shutdown_end(self.client, began, within);
        }
        Some(result)
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
