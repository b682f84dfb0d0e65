//! What a workload plays on, and how what it does comes into the ledger.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::runtime::{BoxFuture, Runtime};
use lock_core::{
    AcquireError, DistributedLock, ExtendError, LockGuard, LockRequest, NodeReports, NodeVote,
    ReleaseError,
};

use super::chance::Chance;
use super::ledger::{CallFacts, CallResult, Told};
use super::marks::Mark;
use super::plan::Plan;
use super::shared::Shared;
use super::tasks::ClientId;

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

/// A call to acquire, until it ends or is dropped.
struct Calling<'a> {
    seat: &'a Seat,
    key: Vec<u8>,
    began: Duration,
    has_ended: bool,
}

impl<'a> Calling<'a> {
    fn new(seat: &'a Seat, request: &LockRequest) -> Self {
        Self {
            seat,
            key: request.resource().to_vec(),
            began: seat.shared.world().now,
            has_ended: false,
        }
    }

    fn end(mut self, result: Result<(), &AcquireError>) {
        let (result, mark) = match result {
            Ok(()) => (CallResult::Acquired, Mark::Acquired),
            Err(AcquireError::Contended(error)) => {
                (CallResult::Contended(votes(&error.nodes)), Mark::Contended)
            }
            Err(AcquireError::Unavailable(error)) => (
                CallResult::Unavailable(votes(&error.nodes)),
                Mark::Unavailable,
            ),
            Err(AcquireError::TooSlow(_)) => (CallResult::TooSlow, Mark::TooSlow),
            Err(_) => (CallResult::Other, Mark::Cancelled),
        };
        self.record(result, mark);
    }

    /// Somebody else has it; nobody says what the nodes said.
    fn taken(mut self) {
        self.record(CallResult::Contended(Vec::new()), Mark::Contended);
    }

    fn record(&mut self, result: CallResult, mark: Mark) {
        self.has_ended = true;
        let mut world = self.seat.shared.world();
        world.mark(mark);
        let (client, ended) = (self.seat.client, world.now);
        world.note(|| format!("client {}: acquire ended: {result:?}", client.0));
        let facts = CallFacts {
            client,
            key: self.key.clone(),
            began: self.began,
            ended,
            result,
        };
        world.ledger.calls.push(facts);
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.record(CallResult::Cancelled, Mark::Cancelled);
        }
    }
}

fn votes(reports: &NodeReports) -> Vec<Told> {
    let told = |vote: &NodeVote| match vote {
        NodeVote::Granted => Told::Granted,
        NodeVote::Refused => Told::Refused,
        NodeVote::Failed(_) => Told::Failed,
        _ => Told::Nothing,
    };
    let reports = reports.as_slice().iter();
    reports.map(|report| told(&report.vote)).collect()
}

/// A guard whose holder's belief the ledger knows.
#[derive(Debug)]
pub struct Tracked {
    guard: LockGuard,
    seat: Seat,
    hold: usize,
}

impl Tracked {
    fn new(seat: &Seat, guard: LockGuard) -> Self {
        let remaining = guard.remaining();
        let mut world = seat.shared.world();
        let hold = world.begin_hold(seat.client, &guard, remaining);
        drop(world);
        Self {
            guard,
            seat: seat.clone(),
            hold,
        }
    }

    /// The guard.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Extends the lock, and judges what comes of it.
    ///
    /// # Errors
    ///
    /// As of the guard.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let before = self.end_by_clock();
        let result = self.guard.extend(ttl).await;
        let after = self.end_by_clock();
        let now = self.seat.runtime.now();
        let mark = match &result {
            Ok(()) => Mark::Extended,
            Err(ExtendError::Unavailable { .. }) => Mark::ExtendUnavailable,
            Err(_) => Mark::ExtendLost,
        };
        self.seat.mark(mark);
        self.seat
            .note(|| format!("extend ended: {mark:?}, {:?} left", self.guard.remaining()));
        match (before, after) {
            (None, Some(_)) => self.wrong("a lost lock was valid again".to_owned()),
            (None, None) if result.is_ok() => self.wrong("a lost lock was extended".to_owned()),
            // Who is told that the lock is lost does not call it valid any more.
            (Some(before), None) if before > now && !matches!(result, Err(ExtendError::Lost)) => {
                self.wrong(format!(
                    "an extension ended a lock early, {:?} early",
                    before - now
                ));
            }
            (Some(before), Some(after)) if after < before => {
                self.wrong(format!("an extension took {:?} away", before - after));
            }
            (Some(before), Some(after)) if before <= now && after > now => {
                self.wrong("a lock whose time ended meanwhile was valid again".to_owned());
            }
            _ => {}
        }
        let remaining = self.guard.remaining();
        self.seat.shared.world().renew_hold(self.hold, remaining);
        result
    }

    fn wrong(&self, text: String) {
        self.seat.violation("extension", text);
    }

    /// When the guard ends by the client's clock.
    fn end_by_clock(&self) -> Option<Duration> {
        let remaining = self.guard.remaining();
        (!remaining.is_zero()).then(|| self.seat.runtime.now() + remaining)
    }

    /// The lock was asked to stay taken until then by the client's clock, whatever happens.
    pub(crate) fn keep_until(&self, until: Duration) {
        self.seat.shared.world().keep_hold(self.hold, until);
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// As of the guard.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.seat.shared.world().end_hold(self.hold);
        let result = self.guard.release().await;
        self.seat.mark(match &result {
            Ok(()) => Mark::Released,
            Err(ReleaseError::NotHeld) => Mark::ReleasedNotHeld,
            Err(_) => Mark::ReleaseUnavailable,
        });
        self.seat.note(|| format!("release ended: {result:?}"));
        result
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if self.seat.shared.world().end_hold(self.hold) {
            self.seat.mark(Mark::Dropped);
        }
    }
}

/// Polls a future so many times and no more: `None` if it was not ready by then. The future is
/// dropped at the await at which it stands.
pub fn drop_at_poll<F: Future>(future: F, polls: u32) -> impl Future<Output = Option<F::Output>> {
    DropAtPoll {
        future: Some(Box::pin(future)),
        polls,
    }
}

struct DropAtPoll<F> {
    future: Option<Pin<Box<F>>>,
    polls: u32,
}

impl<F: Future> Future for DropAtPoll<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 1 => {
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.polls -= 1;
                Poll::Pending
            }
        }
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
