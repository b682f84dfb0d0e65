//! Waiting for the ticks of a period.

use std::sync::Arc;
use std::time::Duration;

use super::claim::TickError;
use super::instant::{Tick, since_epoch};
use super::job::TickJob;
use super::period::Period;
use crate::display::Name;
use crate::runtime::Runtime;

/// The longest single sleep. Timers follow the monotonic clock and ticks the wall clock, so a long
/// sleep is cut into pieces, to notice soon that the wall clock was set or the system suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl TickJob {
    /// The job's ticks as they come due on the wall clock of this instance, beginning with the first
    /// one after the first call of [`next`](Ticks::next).
    ///
    /// # Errors
    ///
    /// [`TickError::NoPeriod`].
    pub fn ticks(&self) -> Result<Ticks, TickError> {
        Ticks::new(self, None)
    }

    /// The job's ticks as they come due on the wall clock of this instance, beginning with the first
    /// one after `tick`. Ticks that are older than the late limit are skipped.
    ///
    /// # Errors
    ///
    /// [`TickError::NoPeriod`].
    pub fn ticks_after(&self, tick: Tick) -> Result<Ticks, TickError> {
        Ticks::new(self, Some(tick))
    }
}

/// The ticks of a [`TickJob`] with a period, as they come due on the wall clock of this instance.
///
/// Ticks come in order, none of them twice. Those that came due while the caller was busy follow at
/// once, except for those older than the job's late limit, which are skipped. So when the wall clock
/// is set back, no tick comes until the clock has caught up with the last one; start again with
/// [`TickJob::ticks`] if that takes too long.
#[derive(Debug)]
pub struct Ticks {
    job: TickJob,
    period: Period,
    /// The last tick that was returned, or the one after which to begin.
    last: Option<Tick>,
    runtime: Option<Arc<dyn Runtime>>,
}

impl Ticks {
    fn new(job: &TickJob, last: Option<Tick>) -> Result<Self, TickError> {
        let period = job.period().ok_or_else(|| TickError::NoPeriod {
            job: Name(job.name().as_bytes()).to_string(),
        })?;
        Ok(Self {
            job: job.clone(),
            period,
            last,
            runtime: None,
        })
    }

    /// Waits until the next tick is due. A wall clock that is set meanwhile is noticed within about a
    /// second.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it is ready has not skipped a tick.
    pub async fn next(&mut self) -> Tick {
        let runtime = self.runtime.get_or_insert_with(|| self.job.runtime());
        loop {
            let now = since_epoch(runtime.system_time());
            let last = *self.last.get_or_insert_with(|| latest(self.period, now));
            match step(self.period, last, now, self.job.late_limit()) {
                Step::Due(tick) => {
                    self.last = Some(tick);
                    return tick;
                }
                Step::Sleep(duration) => runtime.sleep(duration.min(LONGEST_SLEEP)).await,
            }
        }
    }
}

/// What to do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This tick is due and not too old.
    Due(Tick),
    /// No tick is due for this long.
    Sleep(Duration),
}

/// Finds the first tick after `last` that is at most `late` old, without a loop over the ticks between,
/// however far the clock has jumped.
fn step(period: Period, last: Tick, now: Duration, late: Duration) -> Step {
    let after_last = period.next_after(last);
    let young_enough = period.ceil(now.saturating_sub(late));
    match after_last.zip(young_enough) {
        Some((after_last, young_enough)) => {
            let next = after_last.max(young_enough);
            match next.since_epoch().checked_sub(now) {
                None | Some(Duration::ZERO) => Step::Due(next),
                Some(ahead) => Step::Sleep(ahead),
            }
        }
        // There are no more ticks before the end of time.
        None => Step::Sleep(Duration::MAX),
    }
}

/// Returns the latest tick at `now`, which is the time since the epoch.
fn latest(period: Period, now: Duration) -> Tick {
    let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    period.floor(Tick::from_millis(millis))
}

#[cfg(test)]
mod tests;
