//! Tokio's clock on the time line of the process, with the suspends that it does not see.

use crate::runtime::system;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The shortest suspend: no system is suspended and resumed in less.
const SHORTEST: Duration = Duration::from_millis(1);

/// Two readings this close together were not interrupted, so another try would gain nothing.
const TIGHT: Duration = Duration::from_micros(10);

const TRIES: usize = 4;

/// How often the system is asked at most whether it was suspended. A pair of acquire and release reads the
/// time some ten times, and each look costs as much as that. A suspend that began since the last look is as
/// one that begins just after this reading.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long the system has been suspended, since the first look.
static SUSPENDED: Suspended = Suspended::new();

/// Returns where an instant is on the time line of [`system::now`]. The caller has just read it
/// from the clock of its runtime.
pub(super) fn at(instant: Instant) -> Duration {
    let awake = place(instant);
    awake + SUSPENDED.update(awake, system::now, || place(Instant::now()))
}

/// Returns where an instant would be if the system had never been suspended.
fn place(instant: Instant) -> Duration {
    static ORIGIN: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (origin, time) = ORIGIN.get_or_init(origin);
    match instant.checked_duration_since(*origin) {
        Some(after) => *time + after,
        // A paused clock may be behind the origin.
        None => time.saturating_sub(*origin - instant),
    }
}

/// Returns one moment on both clocks. The second is read after the first, and so is too large rather
/// than too small: the time between the two reads never counts as a suspend. The closest pair of a
/// few tries is taken.
fn origin() -> (Instant, Duration) {
    let read = || {
        let awake = Instant::now();
        let time = system::now();
        (awake.elapsed(), (awake, time))
    };
    let mut best = read();
    for _ in 1..TRIES {
        if best.0 < TIGHT {
            break;
        }
        best = std::cmp::min_by_key(best, read(), |(between, _)| *between);
    }
    best.1
}

/// The sum of all suspends, as far as they were noticed.
///
/// The clock that counts suspends and the one that does not cannot be read at the same instant, and
/// the thread may lose the processor between the reads. So their difference jitters, and a clock that
/// added it would go back. The sum therefore only grows, and only by what is certain: the first clock
/// less the second, if the second was read AFTER the first, is at most the true difference.
struct Suspended {
    nanos: AtomicU64,
    /// When the last look was, in ns of the clock that does not count suspends.
    looked_at: AtomicU64,
}

impl Suspended {
    const fn new() -> Self {
        Self {
            nanos: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// Brings the sum up to date and returns it. `awake` was read just before the call.
    fn update(
        &self,
        awake: Duration,
        boot_time: impl Fn() -> Duration,
        awake_time: impl Fn() -> Duration,
    ) -> Duration {
        let known = Duration::from_nanos(self.nanos.load(Ordering::Acquire));
        let looked_at = Duration::from_nanos(self.looked_at.load(Ordering::Relaxed));
        // A paused clock may be behind.
        let since = awake.checked_sub(looked_at);
        if since.is_some_and(|since| since < LOOK_EVERY) {
            return known;
        }
        let nanos = u64::try_from(awake.as_nanos()).unwrap_or(u64::MAX);
        self.looked_at.store(nanos, Ordering::Relaxed);
        // This is too large by the time between the two reads, so it misses nothing, and costs only
        // one read.
        let at_most = boot_time().saturating_sub(awake);
        if at_most < known + SHORTEST {
            return known;
        }
        let certain = certain(boot_time, awake_time);
        if certain < known + SHORTEST {
            return known;
        }
        let certain = u64::try_from(certain.as_nanos()).unwrap_or(u64::MAX);
        let before = self.nanos.fetch_max(certain, Ordering::AcqRel);
        Duration::from_nanos(before.max(certain))
    }
}

/// Returns a sum that is not above the true one, and as near to it as a few tries get.
fn certain(boot_time: impl Fn() -> Duration, awake_time: impl Fn() -> Duration) -> Duration {
    let mut certain = Duration::ZERO;
    for _ in 0..TRIES {
        let before = awake_time();
        let boot = boot_time();
        let after = awake_time();
        certain = certain.max(boot.saturating_sub(after));
        if after.saturating_sub(before) < TIGHT {
            break;
        }
    }
    certain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const HOUR: Duration = Duration::from_secs(3600);
    const STALL: Duration = Duration::from_millis(5);

    /// Two clocks, and the stalls that come after the next reads.
    #[derive(Default)]
    struct Machine {
        awake: Cell<Duration>,
        suspended: Cell<Duration>,
        stalls: RefCell<Vec<Duration>>,
    }

    impl Machine {
        fn read(&self, shown: Duration) -> Duration {
            let stall = self.stalls.borrow_mut().pop().unwrap_or_default();
            self.awake.set(self.awake.get() + stall);
            shown
        }

        fn update(&self, sum: &Suspended) -> Duration {
            self.awake.set(self.awake.get() + LOOK_EVERY);
            self.update_soon(sum)
        }

        fn update_soon(&self, sum: &Suspended) -> Duration {
            sum.update(
                self.read(self.awake.get()),
                || self.read(self.awake.get() + self.suspended.get()),
                || self.read(self.awake.get()),
            )
        }
    }

    #[test]
    fn a_stall_between_the_reads_is_no_suspend() {
        let (machine, sum) = (Machine::default(), Suspended::new());
        machine.stalls.replace(vec![STALL; 64]);
        assert_eq!(machine.update(&sum), Duration::ZERO);
    }

    #[test]
    fn a_suspend_is_counted_once_and_in_full() {
        let (machine, sum) = (Machine::default(), Suspended::new());
        assert_eq!(machine.update(&sum), Duration::ZERO);
        machine.suspended.set(HOUR);
        assert_eq!(machine.update(&sum), HOUR);
        assert_eq!(machine.update(&sum), HOUR);
        machine.suspended.set(HOUR * 2);
        assert_eq!(machine.update(&sum), HOUR * 2);
    }

    #[test]
    fn a_suspend_is_looked_for_every_50_us_at_most() {
        let (machine, sum) = (Machine::default(), Suspended::new());
        machine.update(&sum);
        machine.suspended.set(HOUR);
        assert_eq!(machine.update_soon(&sum), Duration::ZERO);
        machine.awake.set(machine.awake.get() + LOOK_EVERY);
        assert_eq!(machine.update_soon(&sum), HOUR);
        // A clock that was paused, and is behind.
        machine.awake.set(Duration::ZERO);
        machine.suspended.set(2 * HOUR);
        assert_eq!(machine.update_soon(&sum), 2 * HOUR);
    }

    #[test]
    fn a_suspend_among_stalls_is_counted_and_the_sum_never_falls() {
        let (machine, sum) = (Machine::default(), Suspended::new());
        machine.suspended.set(HOUR);
        machine.stalls.replace(vec![STALL; 64]);
        let first = machine.update(&sum);
        assert!(first >= HOUR - STALL && first <= HOUR, "{first:?}");
        machine.stalls.replace(vec![STALL; 64]);
        assert!(machine.update(&sum) >= first);
        machine.stalls.take();
        assert_eq!(machine.update(&sum), HOUR);
    }

    #[test]
    fn an_instant_from_before_the_first_look_has_a_place() {
        let earlier = Instant::now() - Duration::from_millis(1);
        let step = Duration::from_micros(1);
        assert_eq!(place(earlier + step) - place(earlier), step);
        assert!(place(earlier) < system::now());
    }

    #[test]
    fn it_shares_its_time_line_with_the_other_runtimes() {
        let difference = at(Instant::now()).abs_diff(system::now());
        assert!(difference < HOUR, "{difference:?}");
    }
}
