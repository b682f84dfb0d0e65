//! Three ways to decide who runs a tick. One of them works.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::tick::{Period, Tick, TickJob, TickOutcome};
use lock_core::{DistributedLock, LockRequest};

use crate::BoxError;
use crate::report::Attempt;
use crate::rt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Tick,
    ReleaseAfterRun,
    Hold,
}

impl Strategy {
    const ALL: [Self; 3] = [Self::Tick, Self::ReleaseAfterRun, Self::Hold];

    pub(crate) fn explain(self) -> &'static str {
        match self {
            Self::Tick => {
                "Each instance claims the tick by its nominal instant; the claim outlives the run, \
                 so an instance whose clock is behind finds it taken."
            }
            Self::ReleaseAfterRun => {
                "Each instance locks the job, runs it and releases the lock. An instance whose \
                 clock is behind finds the lock free again, and runs the same tick once more."
            }
            Self::Hold => {
                "Each instance locks the job for 1.5 periods and does not release it. No tick runs \
                 twice, but the next tick comes while the lock is still held, and is missed."
            }
        }
    }

    /// One instance's attempt at a tick.
    pub(crate) async fn attempt(
        self,
        locks: &dyn DistributedLock,
        job: &TickJob,
        tick: Tick,
    ) -> Result<Attempt, BoxError> {
        let lock = LockRequest::new(job.name());
        // Only the claims of ticks can do without one.
        let period = job.period().map_or(Duration::ZERO, Period::as_duration);
        match self {
            Self::Tick => claim_tick(locks, job, tick).await,
            Self::ReleaseAfterRun => lock_and_run(locks, lock.ttl(period), tick).await,
            Self::Hold => {
                let hold = period * 3 / 2;
                lock_and_run(locks, lock.ttl(hold).hold_at_least(hold), tick).await
            }
        }
    }
}

/// The right way.
async fn claim_tick(
    locks: &dyn DistributedLock,
    job: &TickJob,
    tick: Tick,
) -> Result<Attempt, BoxError> {
    let outcome = job.run(locks, tick, async |_| the_job(tick).await).await?;
    Ok(match outcome {
        TickOutcome::Ran(late_ms) => Attempt::Ran { late_ms },
        TickOutcome::AlreadyClaimed => Attempt::Taken,
        TickOutcome::TooLate => Attempt::TooLate,
        TickOutcome::Unavailable(cause) => Attempt::Unavailable(cause.to_string()),
        // Only where runs are kept apart.
        TickOutcome::Overlaps | TickOutcome::Stopped(_) => Attempt::TooLate,
    })
}

/// The naive ways.
async fn lock_and_run(
    locks: &dyn DistributedLock,
    request: LockRequest,
    tick: Tick,
) -> Result<Attempt, BoxError> {
    match locks.try_acquire(&request).await {
        Ok(Some(guard)) => {
            let late_ms = the_job(tick).await;
            // The job has run, whatever comes of the release: if it fails, the ttl ends the lock.
            guard.release().await.ok();
            Ok(Attempt::Ran { late_ms })
        }
        Ok(None) => Ok(Attempt::Taken),
        Err(cause) => Ok(Attempt::Unavailable(cause.to_string())),
    }
}

/// The job itself. It tells how many milliseconds after its tick it began, by the true time.
async fn the_job(tick: Tick) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let late = now.unwrap_or_default().as_secs_f64() - tick.since_epoch().as_secs_f64();
    rt::sleep(Duration::from_millis(30)).await;
    (late * 1000.0).round() as i64
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tick => "tick",
            Self::ReleaseAfterRun => "release-after-run",
            Self::Hold => "hold",
        })
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter();
        known
            .clone()
            .find(|strategy| strategy.to_string() == name)
            .ok_or_else(|| {
                let names: Vec<_> = known.map(|strategy| strategy.to_string()).collect();
                format!("--strategy {name}: one of {} is needed", names.join(", "))
            })
    }
}
