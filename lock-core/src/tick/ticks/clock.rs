//! Notices that the wall clock was set back.

use std::time::Duration;

use crate::runtime::Runtime;
use crate::tick::instant::since_epoch;

/// What two clocks may differ by without one of them having been set: this much, and a hundredth of the
/// time between two looks.
pub(super) const TOLERANCE: Duration = Duration::from_millis(500);

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) monotonic: Duration,
    /// Since the epoch.
    pub(super) wall: Duration,
}

impl Reading {
    pub(super) fn of(runtime: &dyn Runtime) -> Self {
        Self {
            monotonic: runtime.now(),
            wall: since_epoch(runtime.system_time()),
        }
    }
}

/// Compares the clocks from look to look.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<Reading>);

impl Watch {
    /// Returns by how much the wall clock was set back since the last look, if it was.
    pub(super) fn look(&mut self, now: Reading) -> Option<Duration> {
        let before = self.0.replace(now)?;
        let elapsed = now.monotonic.saturating_sub(before.monotonic);
        let expected = before.wall.saturating_add(elapsed);
        let back = expected.saturating_sub(now.wall);
        (back > TOLERANCE + elapsed / 100).then_some(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_told_from_one_that_runs_a_little_slow() {
        let ms = Duration::from_millis;
        let table = [
            // elapsed, by the wall clock, set back by
            (1_000, 1_000, None),
            (1_000, 9_000, None),
            (1_000, 490, None),
            (1_000, 489, Some(511)),
            (1_000, -1_000, Some(2_000)),
            // An hour's run, with a clock that is being slewed.
            (3_600_000, 3_570_000, None),
            (3_600_000, -3_600_000, Some(7_200_000)),
        ];
        for (elapsed, by_wall, expected) in table {
            let mut watch = Watch::default();
            let from = Reading {
                monotonic: ms(7),
                wall: ms(10_000_000),
            };
            let to = Reading {
                monotonic: ms(7 + elapsed),
                wall: ms(10_000_000_u64.saturating_add_signed(by_wall)),
            };
            assert_eq!(watch.look(from), None);
            assert_eq!(watch.look(to), expected.map(ms), "{elapsed} {by_wall}");
            assert_eq!(watch.look(to), None, "once for each step");
        }
    }
}
