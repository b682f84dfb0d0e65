//! Fixed periods, aligned to the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::error::TickJobError;
use super::instant::{InvalidTick, Tick};
use crate::ttl::Ttl;

/// A fixed period. Its ticks are its whole multiples since the Unix epoch, so that instances agree on
/// them without talking to each other.
///
/// It is a whole number of milliseconds, at least one, at most 365 days.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use lock_core::tick::{Period, Tick};
///
/// let period = Period::new(Duration::from_secs(1))?;
/// let now = UNIX_EPOCH + Duration::from_millis(7_250);
/// assert_eq!(period.tick_at_or_before(now)?, Tick::from_millis(7_000));
/// assert_eq!(period.tick_after(now)?, Tick::from_millis(8_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(u64);

impl Period {
    /// Makes a period of a duration between 1 ms and 365 days, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// [`TickJobError::PeriodTooShort`], [`PeriodTooLong`](TickJobError::PeriodTooLong), or
    /// [`PeriodNotWhole`](TickJobError::PeriodNotWhole): a third of a second cannot be a period,
    /// because ticks are whole milliseconds and a rounded period would drift away from the exact one.
    pub fn new(period: Duration) -> Result<Self, TickJobError> {
        if period < Ttl::MIN.as_duration() {
            return Err(TickJobError::PeriodTooShort { period });
        }
        if period > Ttl::MAX.as_duration() {
            return Err(TickJobError::PeriodTooLong { period });
        }
        match u64::try_from(period.as_millis()) {
            Ok(millis) if Duration::from_millis(millis) == period => Ok(Self(millis)),
            _ => Err(TickJobError::PeriodNotWhole { period }),
        }
    }

    /// The period as a duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Returns the latest tick that is not after `instant`.
    ///
    /// # Errors
    ///
    /// [`InvalidTick`]: an instant before the Unix epoch, or one whose milliseconds exceed 64 bits.
    pub fn tick_at_or_before(self, instant: SystemTime) -> Result<Tick, InvalidTick> {
        Tick::at(instant).map(|at| self.floor(at))
    }

    /// Returns the first tick after `instant`: for an instant that is itself a tick, the next one.
    ///
    /// # Errors
    ///
    /// [`InvalidTick`]: an instant before the Unix epoch, or milliseconds that exceed 64 bits.
    pub fn tick_after(self, instant: SystemTime) -> Result<Tick, InvalidTick> {
        let next = self.next_after(Tick::at(instant)?);
        next.ok_or(InvalidTick::OutOfRange)
    }

    /// Returns whether the tick is one of this period's.
    #[must_use]
    pub const fn contains(self, tick: Tick) -> bool {
        tick.as_millis().is_multiple_of(self.0)
    }

    pub(super) fn floor(self, at: Tick) -> Tick {
        Tick::from_millis(at.as_millis() / self.0 * self.0)
    }

    /// Returns the first tick later than `at`, or `None` at the end of time.
    pub(super) fn next_after(self, at: Tick) -> Option<Tick> {
        let next = self.floor(at).as_millis().checked_add(self.0)?;
        Some(Tick::from_millis(next))
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Period({self})")
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn period(millis: u64) -> Period {
        Period::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn a_period_is_whole_milliseconds_between_one_and_a_year() {
        use TickJobError::{PeriodNotWhole, PeriodTooLong, PeriodTooShort};
        let nanos = Duration::from_nanos;
        let refuse = |period| Period::new(period).unwrap_err();
        for period in [nanos(0), nanos(1), nanos(999_999)] {
            assert_eq!(refuse(period), PeriodTooShort { period });
        }
        for period in [nanos(1_000_001), Duration::from_secs(1) / 3] {
            assert_eq!(refuse(period), PeriodNotWhole { period });
        }
        let year = Ttl::MAX.as_duration();
        for period in [year + nanos(1), Duration::MAX] {
            assert_eq!(refuse(period), PeriodTooLong { period });
        }
        assert_eq!(period(1).as_duration(), Duration::from_millis(1));
        assert_eq!(Period::new(year).unwrap().as_duration(), year);
        assert_eq!(
            refuse(nanos(1_500_000)).to_string(),
            "period 1.5 ms is not a whole number of milliseconds"
        );
    }

    #[test]
    fn an_instant_lies_between_the_tick_at_or_before_it_and_the_next() {
        let table = [
            // period, instant in microseconds, at or before, after
            (1000, 0, 0, 1000),
            (1000, 999_999, 0, 1000),
            (1000, 1_000_000, 1000, 2000),
            (1000, 1_000_001, 1000, 2000),
            (1, 7, 0, 1),
            (7, 20_999, 14, 21),
            (7, 21_000, 21, 28),
        ];
        for (millis, micros, before, after) in table {
            let instant = UNIX_EPOCH + Duration::from_micros(micros);
            let tick = Tick::from_millis;
            let period = period(millis);
            assert_eq!(period.tick_at_or_before(instant), Ok(tick(before)));
            assert_eq!(period.tick_after(instant), Ok(tick(after)));
            assert!(period.contains(tick(before)) && period.contains(tick(after)));
        }
        assert!(!period(7).contains(Tick::from_millis(20)));
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        let before = UNIX_EPOCH - Duration::from_millis(1);
        assert!(matches!(
            period(5).tick_after(before),
            Err(InvalidTick::BeforeEpoch { .. })
        ));
        let last = Tick::from_millis(u64::MAX);
        assert_eq!(period(10).next_after(last), None);
    }
}
