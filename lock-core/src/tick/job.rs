//! A job's name and its rules.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use super::claim::TickError;
use super::error::TickJobError;
use super::instant::Tick;
use super::period::Period;
use super::schedule::Schedule;
use super::ticks::Missed;
use crate::display::Name;
use crate::error::InvalidInput;
use crate::runtime::{self, Runtime};
use crate::ttl::Ttl;

const LATE_LIMIT_WITHOUT_PERIOD: Duration = Duration::from_secs(10);
const FUTURE_LIMIT: Duration = Duration::from_secs(5);
const ALLOWED_SKEW: Duration = Duration::from_secs(5);
const LONGEST_DEFAULT_CATCH_UP: Duration = Duration::from_secs(30);
/// An instance that replaces another one must find the claims of the ticks that it catches up.
const SHORTEST_RETENTION: Duration = Duration::from_secs(60);
const RETENTION_IN_PERIODS: u32 = 10;

/// A job whose ticks run at most once each, and the rules for claiming them. The
/// [module](super) says what is guaranteed.
///
/// All instances must build the job with the same name and rules, and use it with locks over the
/// same nodes and with the same prefix. A claim is the lock on the resource `{name}:{tick}`.
///
/// ```
/// use std::time::Duration;
/// use lock_core::Redlock;
/// use lock_core::tick::{TickJob, TickOutcome};
/// # use lock_testkit::MemoryNode;
///
/// # futures::executor::block_on(async {
/// let nodes = MemoryNode::several(5);
/// let job = TickJob::every("reports", Duration::from_millis(100))
///     .late_limit(Duration::from_secs(5))
///     .build()?;
/// let tick = job.ticks()?.next().await.ok_or("no more ticks")?;
///
/// let mine = Redlock::new(nodes.clone())?;
/// let outcome = job.run(&mine, tick, async |_| "sent").await?;
/// assert!(matches!(outcome, TickOutcome::Ran("sent")));
///
/// // On another instance, with the same nodes:
/// let theirs = Redlock::new(nodes)?;
/// let outcome = job.run(&theirs, tick, async |_| "sent").await?;
/// assert!(matches!(outcome, TickOutcome::AlreadyClaimed));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TickJob {
    name: Arc<str>,
    schedule: Schedule,
    allow_fractions: bool,
    catch_up: Duration,
    missed: Missed,
    no_overlap: bool,
    start_jitter: Duration,
    late_limit: Duration,
    future_limit: Duration,
    allowed_skew: Duration,
    retention: Ttl,
    runtime: Option<Arc<dyn Runtime>>,
    /// Whether it was told that another instance goes by other rules.
    pub(super) has_told: Arc<AtomicBool>,
}

impl TickJob {
    /// A job whose ticks are the whole multiples of a period since the Unix epoch. The period is a
    /// whole number of milliseconds, at least one, at most 365 days.
    pub fn every(name: impl Into<String>, period: Duration) -> TickJobBuilder {
        TickJobBuilder::new(name.into(), Period::new(period).map(Schedule::Period))
    }

    /// A job whose instants come from a scheduler, one by one: see [`Tick::at`](super::Tick::at). They
    /// are whole seconds, unless [`allow_fractions`](TickJobBuilder::allow_fractions) is on.
    pub fn at_instants(name: impl Into<String>) -> TickJobBuilder {
        TickJobBuilder::new(name.into(), Ok(Schedule::Elsewhere))
    }

    /// A job whose ticks a function tells: it returns the first instant after the one that it is given, or
    /// `None` if there are no more. It must answer all instances alike, whenever it is asked, so it goes by
    /// its argument and never by the time that it is now. Its instants are whole seconds, unless
    /// [`allow_fractions`](TickJobBuilder::allow_fractions) is on.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime, UNIX_EPOCH};
    /// use lock_core::tick::{Tick, TickJob};
    ///
    /// /// A quarter past each hour.
    /// fn quarter_past(after: SystemTime) -> Option<SystemTime> {
    ///     let after = after.duration_since(UNIX_EPOCH).ok()?.as_secs();
    ///     let hours = (after + 45 * 60) / 3600;
    ///     Some(UNIX_EPOCH + Duration::from_secs(hours * 3600 + 15 * 60))
    /// }
    ///
    /// let job = TickJob::scheduled("report", quarter_past).build()?;
    /// let first = job.tick_after(Tick::from_millis(0))?;
    /// assert_eq!(first, Some(Tick::from_millis(15 * 60 * 1000)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn scheduled(
        name: impl Into<String>,
        next: impl FnMut(SystemTime) -> Option<SystemTime> + Send + 'static,
    ) -> TickJobBuilder {
        TickJobBuilder::new(name.into(), Ok(Schedule::function(next)))
    }

    /// The job's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The period, if the job has one.
    #[must_use]
    pub fn period(&self) -> Option<Period> {
        self.schedule.period()
    }

    /// Returns the first tick of the job's schedule after this one, or `None` if there are no more.
    ///
    /// # Errors
    ///
    /// [`TickError::NoSchedule`].
    pub fn tick_after(&self, tick: Tick) -> Result<Option<Tick>, TickError> {
        self.has_schedule()?;
        Ok(self.schedule.next_after(tick))
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn has_schedule(&self) -> Result<(), TickError> {
        match self.schedule {
            Schedule::Elsewhere => Err(TickError::NoSchedule {
                job: Name(self.name.as_bytes()).to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether instants from a scheduler may have a fraction of a second.
    #[must_use]
    pub fn allows_fractions(&self) -> bool {
        self.allow_fractions
    }

    /// How old a tick may be with which [`ticks`](Self::ticks) begins.
    #[must_use]
    pub fn catch_up(&self) -> Duration {
        self.catch_up
    }

    /// What becomes of ticks that came due while nobody waited for them.
    #[must_use]
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// Returns whether runs of different ticks are kept apart.
    #[must_use]
    pub fn has_no_overlap(&self) -> bool {
        self.no_overlap
    }

    /// The longest random wait before a claim.
    #[must_use]
    pub fn start_jitter(&self) -> Duration {
        self.start_jitter
    }

    /// How long after its nominal instant a tick may still be claimed.
    #[must_use]
    pub fn late_limit(&self) -> Duration {
        self.late_limit
    }

    /// How long before its nominal instant a tick may already be claimed.
    #[must_use]
    pub fn future_limit(&self) -> Duration {
        self.future_limit
    }

    /// How far an instance's wall clock may be off.
    #[must_use]
    pub fn allowed_skew(&self) -> Duration {
        self.allowed_skew
    }

    /// How long a claim is remembered.
    #[must_use]
    pub fn retention(&self) -> Duration {
        self.retention.as_duration()
    }

    /// The runtime that was set, or else the one of the caller.
    pub(super) fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone().unwrap_or_else(runtime::ambient)
    }
}

/// Builds a [`TickJob`]. The rules are checked in [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct TickJobBuilder {
    name: String,
    schedule: Result<Schedule, TickJobError>,
    allow_fractions: bool,
    catch_up: Option<Duration>,
    missed: Missed,
    no_overlap: bool,
    start_jitter: Duration,
    late_limit: Option<Duration>,
    future_limit: Duration,
    allowed_skew: Duration,
    retention: Option<Duration>,
    runtime: Option<Arc<dyn Runtime>>,
}

impl TickJobBuilder {
    pub(super) fn new(name: String, schedule: Result<Schedule, TickJobError>) -> Self {
        Self {
            name,
            schedule,
            allow_fractions: false,
            catch_up: None,
            missed: Missed::default(),
            no_overlap: false,
            start_jitter: Duration::ZERO,
            late_limit: None,
            future_limit: FUTURE_LIMIT,
            allowed_skew: ALLOWED_SKEW,
            retention: None,
            runtime: None,
        }
    }

    /// Whether instants from a scheduler may have a fraction of a second. Most that have one were
    /// counted from the start of an instance rather than taken from a schedule: then each instance claims
    /// instants of its own, and all of them run. So allow it only if all instances get the same
    /// fraction. Defaults to off: such an instant is refused. A period has no use for it.
    pub fn allow_fractions(mut self, allow: bool) -> Self {
        self.allow_fractions = allow;
        self
    }

    /// How old a tick may be with which [`ticks`](TickJob::ticks) begins: at most the late limit. The
    /// tick that comes due while all instances are being restarted then runs late rather than never; and
    /// the first start of a job does not run a tick of yesterday. Zero begins with the next tick. Defaults
    /// to the late limit, but at most 30 s.
    pub fn catch_up(mut self, catch_up: Duration) -> Self {
        self.catch_up = Some(catch_up);
        self
    }

    /// What becomes of ticks that came due while nobody waited for them. Defaults to
    /// [`Missed::RunLatest`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Keeps the runs of different ticks apart, on whatever instance, where a run may be longer than a
    /// period: a run holds a lock on the job's name besides, which is extended for as long as it takes. A
    /// tick whose claim is won waits for the run of an earlier one, until its late limit; then it is not run
    /// ([`TickOutcome::Overlaps`](super::TickOutcome::Overlaps)). If that lock is lost, the body is dropped
    /// at its next `await`. This concerns [`run`](TickJob::run) and [`run_forever`](TickJob::run_forever).
    /// Defaults to off.
    pub fn no_overlap(mut self, no_overlap: bool) -> Self {
        self.no_overlap = no_overlap;
        self
    }

    /// Waits for a random time, up to this long, before a tick is claimed: at most half the late limit.
    /// Without it the instance with the fastest clock wins every claim and does all the work; with it they
    /// take turns, if it is longer than their clocks are apart. It also spreads many jobs of one instant.
    /// This concerns [`run`](TickJob::run) and [`run_forever`](TickJob::run_forever). Defaults to zero.
    pub fn start_jitter(mut self, jitter: Duration) -> Self {
        self.start_jitter = jitter;
        self
    }

    /// How long after its nominal instant a tick may still be claimed. After that it is too late,
    /// and an outage is no longer waited out. Defaults to one period, or 10 s for instants without a
    /// period.
    pub fn late_limit(mut self, limit: Duration) -> Self {
        self.late_limit = Some(limit);
        self
    }

    /// How long before its nominal instant a tick may already be claimed. Instances whose clocks are
    /// behind the scheduler's need this. Defaults to 5 s.
    pub fn future_limit(mut self, limit: Duration) -> Self {
        self.future_limit = limit;
        self
    }

    /// How far the wall clock of an instance may be off the true time, in either direction. Defaults
    /// to 5 s.
    pub fn allowed_skew(mut self, skew: Duration) -> Self {
        self.allowed_skew = skew;
        self
    }

    /// How long a claim is remembered: at least 60 s, and at least the late limit, the future limit and
    /// twice the allowed skew together; at most 365 days. Fractions of a millisecond are cut off. Defaults
    /// to ten periods, but at least 60 s and at most 365 days.
    ///
    /// Where versions of a program with different rules run side by side, the claims of each must last
    /// for the others too: see [the module](super#changing-the-rules).
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// The runtime whose wall clock and timers are used. Defaults to the runtime of the caller when a
    /// claim, or the wait for a tick, begins: tokio's if there is one (feature `tokio`), else
    /// [`ThreadRuntime`](crate::runtime::ThreadRuntime).
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Checks the rules and makes the job. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`TickJobError`] names the value that cannot work, with the limit that it breaks.
    pub fn build(self) -> Result<TickJob, TickJobError> {
        if self.name.is_empty() {
            return Err(TickJobError::NameEmpty);
        }
        let schedule = self.schedule.clone()?;
        let period = schedule.period();
        let late_limit = self.late_limit.unwrap_or(match period {
            Some(period) => period.as_duration(),
            None => LATE_LIMIT_WITHOUT_PERIOD,
        });
        let default = late_limit.min(LONGEST_DEFAULT_CATCH_UP);
        let catch_up = self.catch_up.unwrap_or(default);
        if catch_up > late_limit {
            return Err(TickJobError::CatchUpTooLong {
                catch_up,
                late_limit,
            });
        }
        if self.start_jitter > late_limit / 2 {
            return Err(TickJobError::StartJitterTooLong {
                jitter: self.start_jitter,
                late_limit,
            });
        }
        let retention = self.retention.unwrap_or_else(|| default_retention(period));
        let retention = self.check_retention(retention, late_limit)?;
        Ok(TickJob {
            name: self.name.into(),
            schedule,
            allow_fractions: self.allow_fractions,
            catch_up,
            missed: self.missed,
            no_overlap: self.no_overlap,
            start_jitter: self.start_jitter,
            late_limit,
            future_limit: self.future_limit,
            allowed_skew: self.allowed_skew,
            retention,
            runtime: self.runtime,
            has_told: Arc::default(),
        })
    }

    fn check_retention(
        &self,
        retention: Duration,
        late_limit: Duration,
    ) -> Result<Ttl, TickJobError> {
        let minimum = late_limit
            .saturating_add(self.future_limit)
            .saturating_add(self.allowed_skew.saturating_mul(2));
        let too_short = TickJobError::RetentionTooShort {
            retention,
            minimum,
            late_limit,
            future_limit: self.future_limit,
            allowed_skew: self.allowed_skew,
        };
        match Ttl::new(retention) {
            Err(InvalidInput::TtlTooLong { .. }) => {
                Err(TickJobError::RetentionTooLong { retention })
            }
            // Servers count whole milliseconds, so those must be enough.
            Ok(ttl) if ttl.as_duration() >= minimum.max(SHORTEST_RETENTION) => Ok(ttl),
            Ok(ttl) if ttl.as_duration() < minimum => Err(too_short),
            _ => Err(TickJobError::RetentionBelowFloor {
                retention,
                minimum: SHORTEST_RETENTION,
            }),
        }
    }
}

fn default_retention(period: Option<Period>) -> Duration {
    let periods = period.map_or(Duration::ZERO, |period| {
        period.as_duration().saturating_mul(RETENTION_IN_PERIODS)
    });
    periods.max(SHORTEST_RETENTION).min(Ttl::MAX.as_duration())
}

#[cfg(test)]
mod tests;
