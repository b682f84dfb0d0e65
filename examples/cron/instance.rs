//! What one instance of the service does.

use std::time::{Duration, SystemTime};

use lock_core::DistributedLock;

use crate::BoxError;
use crate::clock::OffsetClock;
use crate::plan::{Me, Plan};
use crate::report::Report;
use crate::rt;

/// Lives as long as the plan says.
pub(crate) async fn run(
    locks: &dyn DistributedLock,
    plan: &Plan,
    me: Me,
    tell: impl FnMut(Report) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let life = plan.lives().get(me.life).copied().unwrap_or_default();
    let work = work(locks, plan, me, tell);
    match life.until {
        None => work.await,
        Some(end) => rt::timeout(until(end), work).await.unwrap_or(Ok(())),
    }
}

/// How long it is until then.
pub(crate) fn until(time: SystemTime) -> Duration {
    let left = time.duration_since(SystemTime::now());
    left.unwrap_or_default()
}

/// Attempts every tick of the plan, as it comes due on this instance's own clock.
async fn work(
    locks: &dyn DistributedLock,
    plan: &Plan,
    me: Me,
    mut tell: impl FnMut(Report) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let job = plan.schedule.job(&plan.job);
    let job = job.runtime(OffsetClock::new(me.clock_offset)).build()?;
    let mut ticks = job.ticks()?;
    while let Some(tick) = ticks.next().await {
        if tick < plan.first() {
            continue;
        }
        if tick > plan.last() {
            break;
        }
        let attempt = plan.strategy.attempt(locks, &job, tick).await?;
        tell(Report { tick, attempt })?;
        if tick == plan.last() {
            break;
        }
    }
    Ok(())
}
