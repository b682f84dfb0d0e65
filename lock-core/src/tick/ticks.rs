//! Waiting for the ticks of a schedule.

mod clock;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::clock::{Reading, TOLERANCE, Watch};
use super::claim::TickError;
use super::events;
use super::instant::Tick;
use super::job::TickJob;
use super::schedule::Schedule;
use crate::runtime::Runtime;

/// The longest single sleep. Timers follow the monotonic clock and ticks the wall clock, so a long
/// sleep is cut into pieces, to notice soon that the wall clock was set or the system suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How many ticks are remembered, so that none is returned again when the clock was set back.
const REMEMBERED: usize = 1_000;

/// What becomes of ticks that came due while nobody waited for them: before the program started, while
/// the caller was busy, or while the machine slept. None is ever returned past the job's late limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// They are skipped.
    Skip,
    /// The latest one is returned, late, and those before it are skipped.
    #[default]
    RunLatest,
    /// All are returned, late and in their order. At the start, it is the latest one alone.
    RunAll,
}

impl TickJob {
    /// The job's ticks as they come due on the wall clock of this instance.
    ///
    /// They begin with the last one before the first call of [`next`](Ticks::next), if it is not older
    /// than the job's [`catch_up`](super::TickJobBuilder::catch_up): it may have come due while this
    /// program was being restarted. Another instance that has run it has also claimed it.
    ///
    /// # Errors
    ///
    /// [`TickError::NoSchedule`].
    pub fn ticks(&self) -> Result<Ticks, TickError> {
        Ticks::new(self, None)
    }

    /// The job's ticks as they come due on the wall clock of this instance, beginning with the first
    /// one after `tick`. Of those that came due since, the job's
    /// [`missed`](super::TickJobBuilder::missed) says which follow.
    ///
    /// # Errors
    ///
    /// [`TickError::NoSchedule`].
    pub fn ticks_after(&self, tick: Tick) -> Result<Ticks, TickError> {
        Ticks::new(self, Some(tick))
    }
}

/// The ticks of a [`TickJob`] with a schedule of its own, as they come due on the wall clock of this
/// instance.
///
/// Ticks come in order. Those that came due while the caller was busy follow at once or are skipped,
/// as [`missed`](super::TickJobBuilder::missed) says.
///
/// A wall clock that was set back is noticed within a second, and told to `tracing` as a warning. Ticks
/// then go on by the new time. None that was returned comes again within the job's retention (the last
/// 1,000 are remembered; the claim of an earlier one is found taken).
#[derive(Debug)]
pub struct Ticks {
    job: TickJob,
    /// No tick up to this one is ever returned.
    start: Option<Tick>,
    /// The tick after which to go on, once there is one.
    last: Option<Tick>,
    /// Whether a call of `next` has begun and not returned yet.
    is_waiting: bool,
    returned: Returned,
    watch: Watch,
    runtime: Option<Arc<dyn Runtime>>,
}

impl Ticks {
    fn new(job: &TickJob, start: Option<Tick>) -> Result<Self, TickError> {
        job.has_schedule()?;
        Ok(Self {
            job: job.clone(),
            start,
            last: start,
            is_waiting: false,
            returned: Returned::default(),
            watch: Watch::default(),
            runtime: None,
        })
    }

    /// Waits until the next tick is due; `None` when the schedule has no more. A wall clock that is set
    /// meanwhile is noticed within about a second.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it is ready has not skipped a tick.
    ///
    /// # Panics
    ///
    /// Panics only if the function of a [`scheduled`](TickJob::scheduled) job does.
    pub async fn next(&mut self) -> Option<Tick> {
        let runtime = self.runtime.get_or_insert_with(|| self.job.runtime());
        let runtime = Arc::clone(runtime);
        loop {
            match self.step(Reading::of(&*runtime)) {
                Step::Due(tick) => return Some(tick),
                Step::Sleep(duration) => runtime.sleep(duration.min(LONGEST_SLEEP)).await,
                Step::Over => return None,
            }
        }
    }

    fn step(&mut self, now: Reading) -> Step {
        if let Some(by) = self.watch.look(now) {
            events::clock_set_back(self.job.name(), by);
        }
        // Where the clock is well behind the last tick, it was set back, and this begins anew.
        let reached = now.wall.saturating_add(TOLERANCE);
        let last = self.last.filter(|last| last.since_epoch() <= reached);
        let mut last = last.unwrap_or_else(|| self.begin(now.wall));
        if !self.is_waiting && self.job.missed() == Missed::Skip {
            last = last.max(Tick::floor(now.wall));
        }
        self.is_waiting = true;
        loop {
            let step = step(self.job.schedule(), last, now.wall, &self.job);
            match step {
                Step::Due(tick) => last = tick,
                _ => break self.keep(last, step),
            }
            if self.returned.add(last, now.monotonic, self.job.retention()) {
                self.is_waiting = false;
                break self.keep(last, step);
            }
        }
    }

    fn keep(&mut self, last: Tick, step: Step) -> Step {
        self.last = Some(last);
        step
    }

    /// Returns the tick after which to begin at this time.
    fn begin(&self, now: Duration) -> Tick {
        let schedule = self.job.schedule();
        let before = Tick::before(now.saturating_sub(self.job.catch_up()));
        let now = Tick::floor(now);
        let begin = match schedule.next_after(before) {
            Some(first) if first <= now => schedule.latest(first, now).minus_milli(),
            _ => now,
        };
        begin.max(self.start.unwrap_or(begin))
    }
}

/// What to do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This tick is due and not too old.
    Due(Tick),
    /// No tick is due for this long.
    Sleep(Duration),
    /// There are no more ticks.
    Over,
}

/// Finds the tick after `last` that is due, and at most as old as the late limit; if several are, the
/// first or the latest of them. There is no loop over the ticks between, however far the clock has jumped.
fn step(schedule: &Schedule, last: Tick, now: Duration, job: &TickJob) -> Step {
    let too_old = Tick::before(now.saturating_sub(job.late_limit()));
    let Some(first) = schedule.next_after(last.max(too_old)) else {
        return Step::Over;
    };
    match first.since_epoch().checked_sub(now) {
        Some(ahead) if !ahead.is_zero() => Step::Sleep(ahead),
        _ if job.missed() == Missed::RunAll => Step::Due(first),
        _ => Step::Due(schedule.latest(first, Tick::floor(now))),
    }
}

/// The ticks that were returned of late, with the time of it by the monotonic clock.
#[derive(Debug, Default)]
struct Returned(VecDeque<(Tick, Duration)>);

impl Returned {
    /// Adds a tick, unless it was returned within this time.
    fn add(&mut self, tick: Tick, now: Duration, within: Duration) -> bool {
        while let Some((_, at)) = self.0.front() {
            if now.saturating_sub(*at) < within && self.0.len() < REMEMBERED {
                break;
            }
            self.0.pop_front();
        }
        let is_new = self.0.iter().all(|(other, _)| *other != tick);
        if is_new {
            self.0.push_back((tick, now));
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
