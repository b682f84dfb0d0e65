//! Running a job once for a tick.

use std::time::Duration;

use super::claim::{ClaimedTick, TickClaim, TickError};
use super::instant::Tick;
use super::job::TickJob;
use super::window::Window;
use crate::error::{AcquireError, Loss, WithLockError};
use crate::lock::{DistributedLock, DistributedLockExt};
use crate::request::LockRequest;

/// The outcome of a [run](TickJob::run).
#[derive(Debug)]
#[must_use = "a job that did not run should at least be noticed"]
pub enum TickOutcome<T> {
    /// This instance claimed the tick and ran the job, which returned this value.
    Ran(T),
    /// Another instance has claimed the tick.
    AlreadyClaimed,
    /// The late limit has passed, and the job did not run here. It is not known whether another
    /// instance ran the tick.
    TooLate,
    /// Until the late limit it could not be found out whether the tick was free, so the job did not
    /// run here.
    Unavailable(AcquireError),
    /// This instance claimed the tick, but the run of an earlier tick went on until the late limit had
    /// passed, so the job did not run. Only with [`no_overlap`](super::TickJobBuilder::no_overlap).
    Overlaps,
    /// The job was stopped half-way, at an `await`, since the lock that keeps runs apart was lost. Only
    /// with [`no_overlap`](super::TickJobBuilder::no_overlap).
    Stopped(Loss),
}

impl TickJob {
    /// Claims a tick, as [`claim`](Self::claim) does, and runs `body` if the claim is won. The job's
    /// [`start_jitter`](super::TickJobBuilder::start_jitter) and
    /// [`no_overlap`](super::TickJobBuilder::no_overlap) are heeded.
    ///
    /// The body may take as long as it likes. If it panics or its process crashes, the tick is
    /// lost: no instance runs it again.
    ///
    /// # Errors
    ///
    /// [`TickError`] for a tick that should not have been asked for. The body did not run.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before the body has begun gives up the claim, unless it waits for the run
    /// of an earlier tick. Dropping it later also drops the body, at its current `await`, and the tick is
    /// lost.
    pub async fn run<L, T>(
        &self,
        locks: &L,
        tick: Tick,
        body: impl AsyncFnOnce(&ClaimedTick) -> T,
    ) -> Result<TickOutcome<T>, TickError>
    where
        L: DistributedLock + ?Sized,
    {
        self.start_later(tick).await;
        match self.claim(locks, tick).await? {
            TickClaim::Won(claimed) => {
                let _scope = claimed.guard.scope();
                if self.has_no_overlap() {
                    return self.run_alone(locks, &claimed, body).await;
                }
                Ok(TickOutcome::Ran(body(&claimed).await))
            }
            TickClaim::AlreadyClaimed => Ok(TickOutcome::AlreadyClaimed),
            TickClaim::TooLate => Ok(TickOutcome::TooLate),
            TickClaim::Unavailable(cause) => Ok(TickOutcome::Unavailable(cause)),
        }
    }

    /// Waits for a random part of the jitter, and never so long that the tick would be too late.
    async fn start_later(&self, tick: Tick) {
        let runtime = self.runtime();
        if self.start_jitter().is_zero() {
            return;
        }
        if let Window::Open { left } = self.window(tick, &*runtime) {
            let [a, b, c, d, ..] = runtime.random();
            let share = f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX);
            let jitter = self.start_jitter().min(left / 2);
            runtime.sleep(jitter.mul_f64(share)).await;
        }
    }

    /// Runs the body under a lock on the job's name. The tick is claimed first: the others then know
    /// that it is taken, and one instance alone waits for the run of an earlier tick.
    async fn run_alone<L, T>(
        &self,
        locks: &L,
        claimed: &ClaimedTick,
        body: impl AsyncFnOnce(&ClaimedTick) -> T,
    ) -> Result<TickOutcome<T>, TickError>
    where
        L: DistributedLock + ?Sized,
    {
        let Window::Open { left } = self.window(claimed.tick(), &*self.runtime()) else {
            return Ok(TickOutcome::TooLate);
        };
        let request = LockRequest::new(self.name())
            .auto_extend(true)
            // A body may take as long as it likes.
            .max_hold(Duration::MAX)
            .max_wait(left);
        match locks
            .with_lock(request, async |_| body(claimed).await)
            .await
        {
            Ok(output) => Ok(TickOutcome::Ran(output)),
            // It has run, whatever came of the release.
            Err(WithLockError::NotReleased { output, .. }) => Ok(TickOutcome::Ran(output)),
            Err(WithLockError::Lost(loss)) => Ok(TickOutcome::Stopped(loss)),
            Err(WithLockError::Acquire(error)) => match error {
                AcquireError::Contended(_) => Ok(TickOutcome::Overlaps),
                AcquireError::Invalid(input) => Err(TickError::Invalid(input)),
                error => Ok(TickOutcome::Unavailable(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests;
