//! When a tick may be claimed: pure functions, for which the time is a parameter.

use std::time::Duration;

use super::instant::Tick;

/// Where a moment is in relation to a tick's claim window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// The tick may be claimed, for this much longer.
    Open { left: Duration },
    /// The late limit has passed.
    Closed,
    /// The tick is further ahead than the future limit.
    Ahead { by: Duration },
}

/// A tick's window reaches from the future limit before it to the late limit after it, both ends
/// included. `now` is the time since the epoch by the claimant's own wall clock.
///
/// Why a claim's key may be forgotten after late + future + 2 x skew: the fastest clock opens the
/// window `future + skew` before the true instant, so the earliest key vanishes no sooner than
/// `late + skew` after it. The slowest clock closes the window at that very moment.
pub(super) fn window(tick: Tick, now: Duration, late: Duration, future: Duration) -> Window {
    let tick = tick.since_epoch();
    match now.checked_sub(tick) {
        Some(age) => match late.checked_sub(age) {
            Some(left) => Window::Open { left },
            None => Window::Closed,
        },
        None => match tick.saturating_sub(now) {
            by if by > future => Window::Ahead { by },
            by => Window::Open {
                left: late.saturating_add(by),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Window::{Ahead, Closed, Open};
    use super::*;

    #[test]
    fn the_window_reaches_from_the_future_limit_to_the_late_limit() {
        let ms = Duration::from_millis;
        let ns = Duration::from_nanos(1);
        let table = [
            (ms(10_000) - ms(501), Ahead { by: ms(501) }),
            (ms(9_500) - ns, Ahead { by: ms(500) + ns }),
            (ms(9_500), Open { left: ms(1_500) }),
            (ms(9_999), Open { left: ms(1_001) }),
            (ms(10_000), Open { left: ms(1_000) }),
            (ms(10_400), Open { left: ms(600) }),
            (ms(11_000), Open { left: ms(0) }),
            (ms(11_000) + ns, Closed),
            (ms(99_000), Closed),
            (ms(0), Ahead { by: ms(10_000) }),
            (Duration::MAX, Closed),
        ];
        for (now, expected) in table {
            let actual = window(Tick::from_millis(10_000), now, ms(1_000), ms(500));
            assert_eq!(actual, expected, "{now:?}");
        }
    }

    #[test]
    fn limits_of_zero_leave_the_nominal_instant_alone() {
        let at = |now| {
            let now = Duration::from_nanos(now);
            window(Tick::from_millis(1), now, Duration::ZERO, Duration::ZERO)
        };
        let by = Duration::from_nanos(1);
        let left = Duration::ZERO;
        assert_eq!(at(999_999), Ahead { by });
        assert_eq!(at(1_000_000), Open { left });
        assert_eq!(at(1_000_001), Closed);
    }

    #[test]
    fn endless_limits_and_far_ticks_are_no_overflow() {
        let far = Tick::from_millis(u64::MAX);
        let now = Duration::from_secs(1);
        assert_eq!(
            window(far, now, Duration::MAX, Duration::MAX),
            Open {
                left: Duration::MAX
            }
        );
    }

    proptest! {
        /// The rule behind the retention: from the moment at which one instance finds the window
        /// open until another finds it still open after its claim was answered, no more than this
        /// passes, whatever the clocks show within the allowed skew.
        #[test]
        fn two_claims_that_both_count_lie_within_the_shortest_retention(
            [late, future, skew] in prop::array::uniform3(0..10_000_u64),
            [one, other] in prop::array::uniform2(prop::sample::select(vec![-1.0, -0.3, 0.0, 1.0])),
            [near_opening, near_closing] in prop::array::uniform2(-9_i64..=9),
        ) {
            let ms = Duration::from_millis;
            let open = |true_time: u64, offset: i64| {
                let now = ms(true_time.saturating_add_signed(offset));
                let window = window(Tick::from_millis(100_000), now, ms(late), ms(future));
                matches!(window, Open { .. })
            };
            let [one, other] = [one, other].map(|share| (skew as f64 * share) as i64);
            let first = (100_000 - future).saturating_add_signed(near_opening - one);
            let later = (100_000 + late).saturating_add_signed(near_closing - other);
            if open(first, one) && open(later, other) {
                prop_assert!(later.saturating_sub(first) <= late + future + 2 * skew);
            }
        }
    }
}
