//! What one instance of the service does.

use lock_core::DistributedLock;
use lock_core::tick::{Tick, TickJob};

use crate::BoxError;
use crate::clock::OffsetClock;
use crate::plan::{Me, Plan};
use crate::report::Report;

/// Attempts every tick of the plan, as it comes due on this instance's own clock.
pub(crate) async fn run(
    locks: &dyn DistributedLock,
    plan: &Plan,
    me: Me,
    mut tell: impl FnMut(Report) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let job = TickJob::every(&plan.job, plan.period)
        .runtime(OffsetClock::new(me.clock_offset))
        .build()?;
    // A service would take `job.ticks()`; here all instances begin with the same tick.
    let just_before = Tick::from_millis(plan.first.as_millis().saturating_sub(1));
    let mut ticks = job.ticks_after(just_before)?;
    while let Some(tick) = ticks.next().await {
        if tick > plan.last() {
            return Ok(());
        }
        let attempt = plan
            .strategy
            .attempt(locks, &job, tick, plan.period)
            .await?;
        tell(Report { tick, attempt })?;
        if tick == plan.last() {
            return Ok(());
        }
    }
    Ok(())
}
