//! Claiming a tick, and running a job if that succeeds.

use std::fmt;
use std::time::Duration;

use super::instant::{Tick, since_epoch};
use super::job::TickJob;
use super::period::Period;
use super::window::{Window, window};
use crate::display::{Ms, Name};
use crate::error::{AcquireError, InvalidInput};
use crate::guard::LockGuard;
use crate::lock::DistributedLock;
use crate::request::LockRequest;
use crate::runtime::Runtime;

/// The outcome of a [claim](TickJob::claim).
#[derive(Debug)]
#[must_use = "the job may run only if the claim was won"]
pub enum TickClaim {
    /// This instance, and no other, may run the tick.
    Won(ClaimedTick),
    /// Another instance has claimed the tick: a quorum of nodes named one claimant.
    AlreadyClaimed,
    /// The late limit has passed. It is not known whether another instance ran the tick.
    TooLate,
    /// Until the late limit it could not be found out whether the tick was free: too few nodes
    /// answered, or rivals kept each other from a quorum. The job must not run.
    Unavailable(AcquireError),
}

/// A tick that this instance has claimed.
///
/// Dropping it does not release the tick: the claim is remembered for the job's retention.
pub struct ClaimedTick {
    tick: Tick,
    pub(super) guard: LockGuard,
}

impl ClaimedTick {
    /// The tick that was claimed.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The lock that is the claim. It needs no extension, however long the job runs, and releasing
    /// it does not free the tick.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }
}

/// Why a tick should not have been asked for. Nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickError {
    /// The tick is too far ahead of the wall clock of this instance: one of the two is wrong.
    #[error(
        "tick {tick} is {} in the future, above the limit of {}",
        Ms(*ahead), Ms(*limit)
    )]
    TooFarInFuture {
        /// The tick.
        tick: Tick,
        /// How far ahead it is.
        ahead: Duration,
        /// The job's future limit.
        limit: Duration,
    },
    /// The tick is not a multiple of the job's period. The usual cause is a tick made of the current
    /// time: every instance would have one of its own, and all of them would run.
    #[error("tick {tick} is not a multiple of the job's period of {period}")]
    NotOfThePeriod {
        /// The tick.
        tick: Tick,
        /// The job's period.
        period: Period,
    },
    /// The instant has a fraction of a second, which is most often that of the start of this instance:
    /// every instance would claim an instant of its own, and all of them would run. See
    /// [`TickJobBuilder::allow_fractions`](super::TickJobBuilder::allow_fractions).
    #[error(
        "tick {tick} is not a whole second but {} past one: if each instance has a fraction of its own, \
         each claims another instant and all of them run; allow_fractions(true) allows it",
        Ms(tick.fraction())
    )]
    NotAWholeSecond {
        /// The tick.
        tick: Tick,
    },
    /// The job has no schedule of its own, so there are no ticks to wait for.
    #[error("job {job} has no schedule, its instants come from a scheduler")]
    NoSchedule {
        /// The job's name, which may be cut.
        job: String,
    },
    /// The lock refused the request, for instance because the job's name makes too long a key.
    #[error("the tick cannot be claimed with this lock")]
    Invalid(#[source] InvalidInput),
}

impl fmt::Debug for ClaimedTick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClaimedTick")
            .field(&Name(self.guard.resource()))
            .finish()
    }
}

impl TickJob {
    /// Claims a tick. An outage, or rivals that compete for the tick, are retried until the tick's
    /// late limit has passed by the wall clock of this instance.
    ///
    /// # Errors
    ///
    /// [`TickError`] for a tick that should not have been asked for. Nothing was claimed.
    ///
    /// # Cancel safety
    ///
    /// A dropped call gives up. What it has set by then is released in the background, so that another
    /// instance can claim the tick.
    pub async fn claim<L>(&self, locks: &L, tick: Tick) -> Result<TickClaim, TickError>
    where
        L: DistributedLock + ?Sized,
    {
        let runtime = self.runtime();
        let Some(request) = self.request(tick, self.window(tick, &*runtime))? else {
            return Ok(TickClaim::TooLate);
        };
        let answer = locks.acquire(&request).await;
        if let Err(AcquireError::Contended(contended)) = &answer
            && let Some(left) = contended.holder_ttl
        {
            self.tell_of_other_rules(tick, left, since_epoch(runtime.system_time()));
        }
        judge(tick, answer, self.window(tick, &*runtime))
    }

    pub(super) fn window(&self, tick: Tick, runtime: &dyn Runtime) -> Window {
        let now = since_epoch(runtime.system_time());
        window(tick, now, self.late_limit(), self.future_limit())
    }

    /// Returns what to ask of the lock, or `None` if it is too late.
    fn request(&self, tick: Tick, window: Window) -> Result<Option<LockRequest>, TickError> {
        match self.period() {
            Some(period) if !period.contains(tick) => {
                return Err(TickError::NotOfThePeriod { tick, period });
            }
            None if !tick.fraction().is_zero() && !self.allows_fractions() => {
                return Err(TickError::NotAWholeSecond { tick });
            }
            _ => {}
        }
        match window {
            Window::Ahead { by } => Err(TickError::TooFarInFuture {
                tick,
                ahead: by,
                limit: self.future_limit(),
            }),
            Window::Closed => Ok(None),
            // The tick's text has no colon, so no two pairs of job and tick share a resource.
            Window::Open { left } => Ok(Some(
                LockRequest::new(format!("{}:{tick}", self.name()))
                    .fencing(false)
                    .ttl(self.retention())
                    .hold_at_least(self.retention())
                    .max_wait(left)
                    .fail_if_held(true),
            )),
        }
    }
}

/// Returns what a lock's answer means for the tick. `window` was judged after the answer.
fn judge(
    tick: Tick,
    answer: Result<LockGuard, AcquireError>,
    window: Window,
) -> Result<TickClaim, TickError> {
    match answer {
        // The claim was won too late to count. Its key may have been set after the key of an earlier
        // claim expired, so running now could be a second run. The key stays, so no other instance
        // runs the tick either.
        Ok(_) if window == Window::Closed => Ok(TickClaim::TooLate),
        Ok(guard) => Ok(TickClaim::Won(ClaimedTick { tick, guard })),
        Err(AcquireError::Invalid(input)) => Err(TickError::Invalid(input)),
        // Only a quorum that names one claimant proves that the tick is taken. Other refusals come
        // from rivals that may all have failed.
        Err(AcquireError::Contended(contended)) if contended.holder.is_some() => {
            Ok(TickClaim::AlreadyClaimed)
        }
        Err(cause) => Ok(TickClaim::Unavailable(cause)),
    }
}

#[cfg(test)]
mod tests;
