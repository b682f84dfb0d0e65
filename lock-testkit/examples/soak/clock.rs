//! The one clock by which all processes of a soak tell their times, which is also that of the locks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Microseconds since the machine was started.
pub(crate) type Micros = u64;

pub(crate) fn now() -> Micros {
    let time = clock_gettime(CLOCK);
    // Neither part of this clock is ever negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000 + nanos / 1_000
}

/// Cuts off what is less than a microsecond.
pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Seconds since another moment, for people.
pub(crate) fn seconds(at: Micros, since: Micros) -> String {
    format!("{:.3}", at.saturating_sub(since) as f64 / 1e6)
}
