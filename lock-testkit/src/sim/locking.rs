//! What a client does with its lock, recorded in the ledger.

use std::time::Duration;

use lock_core::{
    AcquireError, Lease, LockRequest, NodeReports, NodeVote, ResumeError, ShutdownError,
};

use super::client::SimClient;
use super::coverage::Mark;
use super::ledger::{CallFacts, CallResult, Vote};
use super::tracked::TrackedGuard;

impl SimClient {
    /// Acquires a lock, waiting for it.
    ///
    /// # Errors
    ///
    /// Those of [`DistributedLock::acquire`](lock_core::DistributedLock::acquire).
    pub async fn acquire(&self, request: &LockRequest) -> Result<TrackedGuard, AcquireError> {
        let call = Calling::new(self, request);
        let began = call.began;
        let result = self.locks.acquire(request).await;
        call.end(result.as_ref().map(|_| ()));
        result.map(|guard| TrackedGuard::new(self, guard, request, began))
    }

    /// Acquires a lock without waiting; `None` if another client holds it.
    ///
    /// # Errors
    ///
    /// Those of [`DistributedLock::try_acquire`](lock_core::DistributedLock::try_acquire).
    pub async fn try_acquire(
        &self,
        request: &LockRequest,
    ) -> Result<Option<TrackedGuard>, AcquireError> {
        let call = Calling::new(self, request);
        let began = call.began;
        let result = self.locks.try_acquire(request).await;
        match &result {
            Ok(Some(_)) => call.end(Ok(())),
            Ok(None) => call.taken(),
            Err(error) => call.end(Err(error)),
        }
        result.map(|guard| guard.map(|guard| TrackedGuard::new(self, guard, request, began)))
    }

    /// Resumes a lock that was handed over, and judges the result; `None` if the lock is not a
    /// [`Redlock`](lock_core::Redlock).
    pub async fn resume(&self, lease: &Lease) -> Option<Result<TrackedGuard, ResumeError>> {
        let redlock = self.redlock.as_ref()?;
        let (began, before) = {
            let mut world = self.shared.world();
            (world.now, world.begin_resume(lease))
        };
        let result = redlock.resume(lease).await;
        let mut world = self.shared.world();
        world.judge_resume(self.id, before, result.as_ref());
        drop(world);
        let request = LockRequest::many(lease.resources()).ttl(lease.ttl());
        Some(result.map(|guard| TrackedGuard::new(self, guard, &request, began)))
    }

    /// Shuts this client's lock down, and judges the result; `None` if the lock is not a
    /// [`Redlock`](lock_core::Redlock).
    pub async fn shut_down(&self, within: Duration) -> Option<Result<(), ShutdownError>> {
        let redlock = self.redlock.as_ref()?;
        let began = self.shared.world().shut_down(self.id);
        let result = redlock.shutdown_within(within).await;
        self.note(|| format!("shutdown ended: {result:?}"));
        self.mark(match result {
            Ok(()) => Mark::ShutdownDone,
            Err(_) => Mark::ShutdownFailed,
        });
        if result.is_ok() {
            let mut world = self.shared.world();
            world.judge_shutdown_end(self.id, began, within);
        }
        Some(result)
    }
}

/// A call to acquire, until it ends or is dropped.
struct Calling<'a> {
    client: &'a SimClient,
    keys: Vec<Vec<u8>>,
    began: Duration,
    has_ended: bool,
}

impl<'a> Calling<'a> {
    fn new(client: &'a SimClient, request: &LockRequest) -> Self {
        let mut keys = request.resources().map(<[u8]>::to_vec).collect::<Vec<_>>();
        keys.sort_unstable();
        Self {
            client,
            keys,
            began: client.shared.world().now,
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
            Err(AcquireError::ShutDown) => (CallResult::ShutDown, Mark::ShutDown),
            Err(AcquireError::TooSlow(_)) => (CallResult::TooSlow, Mark::TooSlow),
            Err(_) => (CallResult::Other, Mark::Cancelled),
        };
        self.record(result, mark);
    }

    /// Records that another client holds the lock; what the nodes said is not known.
    fn taken(mut self) {
        self.record(CallResult::Contended(Vec::new()), Mark::Contended);
    }

    fn record(&mut self, result: CallResult, mark: Mark) {
        self.has_ended = true;
        let mut world = self.client.shared.world();
        world.mark(mark);
        let (client, ended) = (self.client.id, world.now);
        if result == CallResult::Acquired {
            world.judge_shutdown(client, "acquired");
        }
        world.note(|| format!("client {}: acquire ended: {result:?}", client.0));
        let facts = CallFacts {
            client,
            keys: self.keys.clone(),
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

fn votes(reports: &NodeReports) -> Vec<Vote> {
    let vote = |vote: &NodeVote| match vote {
        NodeVote::Granted => Vote::Granted,
        NodeVote::Refused => Vote::Refused,
        NodeVote::Failed(_) => Vote::Failed,
        _ => Vote::Nothing,
    };
    let reports = reports.as_slice().iter();
    reports.map(|report| vote(&report.vote)).collect()
}
