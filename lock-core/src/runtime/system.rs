//! What the runtimes take from the operating system: random bytes, and time that goes on while the
//! system is suspended.
//!
//! A server counts a lock's ttl down while its holder's machine is suspended, so a clock that stops
//! meanwhile would call an expired lock valid. On Linux, CLOCK_BOOTTIME goes on, while
//! CLOCK_MONOTONIC, which is [`Instant`](std::time::Instant) and tokio's clock, stops. On Apple's systems,
//! CLOCK_MONOTONIC goes on, and `Instant` is another clock, which stops. On others `Instant` has to do: it
//! goes on during suspend on Windows.

use std::sync::OnceLock;
use std::time::Duration;

/// The clock's first reading. It is not zero because a paused tokio clock, which is put on the same
/// time line, may be behind that moment, and must not stick at zero then.
const AT_ORIGIN: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Time since an origin that all runtimes of the process share, so that their times can be
/// compared: a lock may be used from one runtime first and from another later.
pub(super) fn now() -> Duration {
    static ORIGIN: OnceLock<clock::Reading> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(clock::read);
    AT_ORIGIN + clock::since(origin)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod clock {
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    pub(super) type Reading = Duration;

    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;

    pub(super) fn read() -> Reading {
        let time = clock_gettime(CLOCK);
        // Neither part of this clock is ever negative.
        Duration::new(
            time.tv_sec.try_into().unwrap_or_default(),
            time.tv_nsec.try_into().unwrap_or_default(),
        )
    }

    pub(super) fn since(origin: Reading) -> Duration {
        read().saturating_sub(origin)
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod clock {
    use std::time::{Duration, Instant};

    pub(super) type Reading = Instant;

    pub(super) fn read() -> Reading {
        Instant::now()
    }

    pub(super) fn since(origin: Reading) -> Duration {
        origin.elapsed()
    }
}

/// Returns 16 bytes from the operating system's generator.
///
/// Every call asks the system. Keeping bytes for later would be cheaper, but a process that forks
/// would use the same ones twice, and two holders must never have the same token; beside a round trip
/// to a server the call costs nothing.
///
/// If the system has no bytes, this waits until it has. None of the supported systems fails once it
/// has booted, with one exception: Linux without the system call (an old kernel, a strict sandbox)
/// reads a file, for which it may lack a descriptor for a moment. On a system that can never open it
/// no Rust program runs for long, because the standard library's hash maps need the same bytes.
pub(super) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    while getrandom::fill(&mut bytes).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_and_never_goes_back() {
        let first = now();
        let mut last = first;
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last, "{next:?} after {last:?}");
            last = next;
        }
        assert!(last > first);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_it_is_the_clock_that_counts_suspend() {
        // The kernel's own account of that clock, in hundredths of a second.
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        let (before, boot, after) = (uptime(), clock::read(), uptime());
        let unit = Duration::from_millis(11);
        assert!(boot + unit >= before, "{boot:?} {before:?}");
        assert!(boot <= after + unit, "{boot:?} {after:?}");
    }

    #[test]
    fn no_two_random_draws_are_alike() {
        let draws: std::collections::HashSet<_> = (0..1000).map(|_| random()).collect();
        assert_eq!(draws.len(), 1000);
    }
}
