//! One nominal instant of a schedule.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::display::Ms;

/// One nominal instant of a schedule, in whole milliseconds since the Unix epoch.
///
/// It is the instant for which a run is *planned*, not the one at which it happens: every instance
/// must get the same value, whatever its clock says. So `Tick::at(SystemTime::now())` is never right;
/// take the instant from the schedule.
///
/// It displays as the text that is part of the claim's key: the milliseconds as a decimal number.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use lock_core::tick::Tick;
///
/// let planned = UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_999);
/// assert_eq!(Tick::at(planned)?.to_string(), "1700000000000");
/// # Ok::<(), lock_core::tick::InvalidTick>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The tick of an instant from a scheduler. Fractions of a millisecond are cut off, so that
    /// schedulers of different precision agree.
    ///
    /// # Errors
    ///
    /// [`InvalidTick`]: an instant before the Unix epoch, or one whose milliseconds exceed 64 bits.
    pub fn at(instant: SystemTime) -> Result<Self, InvalidTick> {
        match instant.duration_since(UNIX_EPOCH) {
            Ok(since_epoch) => u64::try_from(since_epoch.as_millis())
                .map(Self)
                .map_err(|_| InvalidTick::OutOfRange),
            Err(error) => Err(InvalidTick::BeforeEpoch {
                by: error.duration(),
            }),
        }
    }

    /// The tick that is this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The tick in milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The tick as the time since the Unix epoch.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The last millisecond that is not later than this time since the epoch.
    pub(super) fn floor(since_epoch: Duration) -> Self {
        Self(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// The last millisecond before this time since the epoch, or the epoch.
    pub(super) fn before(since_epoch: Duration) -> Self {
        let millis = since_epoch.as_nanos().div_ceil(1_000_000);
        Self(u64::try_from(millis).unwrap_or(u64::MAX)).minus_milli()
    }

    pub(super) const fn minus_milli(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    pub(super) fn plus_milli(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// Returns what the tick has beyond a whole second.
    pub(super) const fn fraction(self) -> Duration {
        Duration::from_millis(self.0 % 1000)
    }

    /// The tick as an instant, or `None` if it is further away than the platform can express.
    #[must_use]
    pub fn system_time(self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(self.since_epoch())
    }
}

impl TryFrom<SystemTime> for Tick {
    type Error = InvalidTick;

    fn try_from(instant: SystemTime) -> Result<Self, InvalidTick> {
        Self::at(instant)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an instant cannot be a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTick {
    /// The instant is before the Unix epoch, from which ticks are counted.
    #[error("instant is {} before the Unix epoch", Ms(*by))]
    BeforeEpoch {
        /// How long before the epoch it is.
        by: Duration,
    },
    /// The instant is hundreds of millions of years in the future.
    #[error("instant is above the maximum of {} ms after the Unix epoch", u64::MAX)]
    OutOfRange,
}

/// The reading of a wall clock as the time since the Unix epoch. A clock before the epoch counts as
/// the epoch: it is wrong by decades, and every real tick is then refused as too far ahead.
pub(super) fn since_epoch(wall: SystemTime) -> Duration {
    wall.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_cuts_fractions_of_a_millisecond() {
        for (nanos, millis) in [(0, 0), (999_999, 0), (1_000_000, 1), (1_999_999, 1)] {
            let instant = UNIX_EPOCH + Duration::from_nanos(nanos);
            assert_eq!(Tick::at(instant), Ok(Tick(millis)), "{nanos} ns");
            assert_eq!(Tick::try_from(instant), Ok(Tick(millis)));
        }
    }

    #[test]
    fn an_instant_before_the_epoch_is_not_a_tick() {
        let by = Duration::from_nanos(1);
        let error = Tick::at(UNIX_EPOCH - by).unwrap_err();
        assert_eq!(error, InvalidTick::BeforeEpoch { by });
        assert_eq!(
            error.to_string(),
            "instant is 0.000001 ms before the Unix epoch"
        );
    }

    #[test]
    fn an_instant_beyond_64_bits_of_milliseconds_is_not_a_tick() {
        // Not every platform can express such an instant at all.
        if let Some(instant) = UNIX_EPOCH.checked_add(Duration::from_secs(u64::MAX / 2)) {
            assert_eq!(Tick::at(instant), Err(InvalidTick::OutOfRange));
        }
    }

    #[test]
    fn a_tick_comes_back_as_the_instant_it_was_made_from() {
        let instant = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let tick = Tick::at(instant).unwrap();
        assert_eq!(tick.system_time(), Some(instant));
        assert_eq!(tick.to_string(), "1700000000123");
        // Whether the platform can express the furthest tick or not, it does not panic.
        let furthest = Tick::from_millis(u64::MAX);
        let instant = furthest.system_time().unwrap_or(UNIX_EPOCH);
        assert!(Tick::at(instant).unwrap() <= furthest);
    }

    #[test]
    fn the_milliseconds_around_a_time_count_its_fractions() {
        for (micros, before, floor) in [(0, 0, 0), (1, 0, 0), (1_000, 0, 1), (1_001, 1, 1)] {
            let time = Duration::from_micros(micros);
            assert_eq!(Tick::before(time), Tick(before), "{micros}");
            assert_eq!(Tick::floor(time), Tick(floor), "{micros}");
        }
        assert_eq!(Tick::floor(Duration::MAX), Tick(u64::MAX));
    }

    #[test]
    fn a_clock_before_the_epoch_counts_as_the_epoch() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(since_epoch(before), Duration::ZERO);
    }
}
