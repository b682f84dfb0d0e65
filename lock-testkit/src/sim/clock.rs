//! Clocks that err.

use std::time::Duration;

/// Parts per billion.
const BILLION: i128 = 1_000_000_000;

/// A clock that runs at a rate of its own and may jump. Whole nanoseconds, no floating point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// A true moment, and what the clock showed then.
    anchor: Duration,
    shown: Duration,
    /// How much faster than true time it runs, in parts per billion.
    rate_ppb: i64,
    has_jumped: bool,
}

impl Clock {
    /// A clock that shows `shown` at the true time zero.
    pub(crate) fn new(shown: Duration, rate_ppb: i64) -> Self {
        Self {
            anchor: Duration::ZERO,
            shown,
            rate_ppb,
            has_jumped: false,
        }
    }

    /// What it shows at a true moment, which is never before the last jump.
    pub(crate) fn at(&self, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.anchor);
        self.shown + scale(elapsed, BILLION + i128::from(self.rate_ppb), BILLION)
    }

    /// The first true moment at which it shows `shown` or more.
    pub(crate) fn true_at(&self, shown: Duration) -> Duration {
        let left = shown.saturating_sub(self.shown);
        let factor = BILLION + i128::from(self.rate_ppb);
        self.anchor.saturating_add(scale_up(left, BILLION, factor))
    }

    /// Whether it ever jumped.
    pub(crate) fn has_jumped(&self) -> bool {
        self.has_jumped
    }

    /// Moves the clock by so many nanoseconds.
    pub(crate) fn jump(&mut self, now: Duration, nanos: i64) {
        let shown = self.at(now);
        let by = Duration::from_nanos(nanos.unsigned_abs());
        self.anchor = now;
        self.has_jumped = true;
        self.shown = if nanos < 0 {
            shown.saturating_sub(by)
        } else {
            shown.saturating_add(by)
        };
    }
}

fn scale(duration: Duration, by: i128, of: i128) -> Duration {
    from_nanos(nanos(duration) * by / of)
}

fn scale_up(duration: Duration, by: i128, of: i128) -> Duration {
    from_nanos((nanos(duration) * by + of - 1) / of)
}

fn nanos(duration: Duration) -> i128 {
    // 2^64 seconds of nanoseconds fit with room for the factor of a billion.
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / (4 * BILLION))
}

fn from_nanos(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_again_through_the_clock() {
        let second = Duration::from_secs(1);
        for rate in [-9_000_000, -1, 0, 1, 9_000_000] {
            let mut clock = Clock::new(1000 * second, rate);
            clock.jump(3 * second, -2_000_000_000);
            for millis in [3000, 3001, 5077, 999_999] {
                let now = Duration::from_millis(millis);
                let shown = clock.at(now);
                let found = clock.true_at(shown);
                assert!(clock.at(found) >= shown);
                assert!(found <= now && now - found <= Duration::from_nanos(2));
            }
        }
    }

    #[test]
    fn a_jump_back_shows_less() {
        let mut clock = Clock::new(Duration::from_secs(100), 0);
        let now = Duration::from_secs(10);
        clock.jump(now, -1_500_000_000);
        assert_eq!(clock.at(now), Duration::from_millis(108_500));
        clock.jump(now, 500_000_000);
        assert_eq!(clock.at(now), Duration::from_secs(109));
    }
}
