//! Where a job's ticks come from.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::instant::Tick;
use super::period::Period;
use crate::sync::locked;

/// Tells the first instant after the one it is given.
type NextInstant = dyn FnMut(SystemTime) -> Option<SystemTime> + Send;

#[derive(Clone)]
pub(super) enum Schedule {
    /// The whole multiples of a period.
    Period(Period),
    Function(Arc<Mutex<NextInstant>>),
    #[cfg(feature = "cron")]
    Cron(Arc<super::cron::CronSchedule>),
    /// A scheduler hands over one instant after the other.
    Elsewhere,
}

impl Schedule {
    pub(super) fn function(
        next: impl FnMut(SystemTime) -> Option<SystemTime> + Send + 'static,
    ) -> Self {
        Self::Function(Arc::new(Mutex::new(next)))
    }

    pub(super) fn period(&self) -> Option<Period> {
        match self {
            Self::Period(period) => Some(*period),
            _ => None,
        }
    }

    /// Returns the first tick later than `after`, or `None` if there are no more.
    pub(super) fn next_after(&self, after: Tick) -> Option<Tick> {
        match self {
            Self::Period(period) => period.next_after(after),
            Self::Function(next) => ask(&mut *locked(next), after),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => cron.next_after(after),
            Self::Elsewhere => None,
        }
    }

    /// Returns the latest tick that is not later than `now`. `first` is one that is not.
    pub(super) fn latest(&self, first: Tick, now: Tick) -> Tick {
        if let Self::Period(period) = self {
            return period.floor(now);
        }
        // By halves, so that a schedule of seconds takes no longer after a year than after a minute.
        let (mut latest, mut end) = (first.as_millis(), now.as_millis());
        while latest < end {
            let middle = latest + (end - latest) / 2;
            match self.next_after(Tick::from_millis(middle)) {
                Some(tick) if tick <= now => latest = tick.as_millis(),
                _ => end = middle,
            }
        }
        Tick::from_millis(latest)
    }
}

/// A function that answers with the instant that it was asked about is asked once more, a little later.
fn ask(next: &mut NextInstant, after: Tick) -> Option<Tick> {
    let mut ask = |at: Tick| Tick::at(next(at.system_time()?)?).ok();
    let tick = ask(after)?;
    if tick > after {
        return Some(tick);
    }
    ask(after.plus_milli()?).filter(|tick| *tick > after)
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period(period) => period.fmt(f),
            Self::Function(_) => f.write_str("Function"),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => cron.fmt(f),
            Self::Elsewhere => f.write_str("Elsewhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    fn millis(instant: SystemTime) -> u64 {
        Tick::at(instant).unwrap().as_millis()
    }

    /// Every three seconds, up to a minute.
    fn threes(after: SystemTime) -> Option<SystemTime> {
        let next = (millis(after) / 3_000 + 1) * 3_000;
        (next <= 60_000).then(|| at(next))
    }

    #[test]
    fn a_function_is_asked_for_what_comes_after_an_instant() {
        let schedule = Schedule::function(threes);
        let next = |millis| {
            let tick = schedule.next_after(Tick::from_millis(millis));
            tick.map(Tick::as_millis)
        };
        assert_eq!([next(0), next(2_999)], [Some(3_000); 2]);
        assert_eq!([next(3_000), next(60_000)], [Some(6_000), None]);
    }

    #[test]
    fn a_function_that_answers_with_what_it_was_asked_about_does_not_stand_still() {
        let inclusive = Schedule::function(|after| Some(at(millis(after).div_ceil(1_000) * 1_000)));
        let next = |millis| inclusive.next_after(Tick::from_millis(millis));
        assert_eq!(next(1_000), Some(Tick::from_millis(2_000)));
        assert_eq!(next(1_001), Some(Tick::from_millis(2_000)));
        // One that never goes on is over.
        let stuck = Schedule::function(|_| Some(at(5)));
        assert_eq!(stuck.next_after(Tick::from_millis(5)), None);
        let before_the_epoch = Schedule::function(|_| Some(UNIX_EPOCH - Duration::from_secs(1)));
        assert_eq!(before_the_epoch.next_after(Tick::from_millis(5)), None);
    }

    #[test]
    fn the_latest_tick_is_found_with_few_questions() {
        let latest = |first, now| {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let schedule = Schedule::function(move |after| {
                count.fetch_add(1, Ordering::SeqCst);
                Some(at((millis(after) / 3_000 + 1) * 3_000))
            });
            let latest = schedule.latest(Tick::from_millis(first), Tick::from_millis(now));
            assert!(asked.load(Ordering::SeqCst) < 40, "{asked:?}");
            latest.as_millis()
        };
        for (now, expected) in [
            (3_000, 3_000),
            (5_999, 3_000),
            (6_000, 6_000),
            (9_001, 9_000),
        ] {
            assert_eq!(latest(3_000, now), expected, "{now}");
        }
        let year = 365 * 24 * 60 * 60 * 1_000;
        assert_eq!(latest(3_000, year + 2_000), year);
        let ended = Schedule::function(threes);
        let late = Tick::from_millis(99_999);
        assert_eq!(
            ended.latest(Tick::from_millis(3_000), late).as_millis(),
            60_000
        );
    }
}
