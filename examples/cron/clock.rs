//! Clocks that are wrong.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lock_core::Runtime;
use lock_core::runtime::{self, BoxFuture};

/// The clocks are at most so far apart.
const SPREAD_MS: i64 = 300;

/// How far the clock of an instance (numbered from 1) is ahead, in milliseconds: the clocks lie
/// evenly around the true time.
pub(crate) fn offset(number: usize, instances: usize) -> i64 {
    let gaps = i64::try_from(instances.saturating_sub(1)).unwrap_or(i64::MAX);
    let before = i64::try_from(number.saturating_sub(1)).unwrap_or(i64::MAX);
    match gaps {
        0 => 0,
        _ => SPREAD_MS * before / gaps - SPREAD_MS / 2,
    }
}

/// A runtime whose wall clock is ahead or behind. Everything else is the runtime beneath.
#[derive(Debug)]
pub(crate) struct OffsetClock {
    beneath: Arc<dyn Runtime>,
    offset: i64,
}

impl OffsetClock {
    /// A clock that is so many milliseconds ahead.
    pub(crate) fn new(offset: i64) -> Arc<Self> {
        Arc::new(Self {
            beneath: runtime::ambient(),
            offset,
        })
    }
}

impl Runtime for OffsetClock {
    fn system_time(&self) -> SystemTime {
        let offset = Duration::from_millis(self.offset.unsigned_abs());
        match self.offset {
            0.. => self.beneath.system_time() + offset,
            _ => self.beneath.system_time() - offset,
        }
    }

    fn now(&self) -> Duration {
        self.beneath.now()
    }

    fn random(&self) -> [u8; 16] {
        self.beneath.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.beneath.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.beneath.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_lie_evenly_around_the_true_time() {
        assert_eq!([1, 2, 3, 4].map(|n| offset(n, 4)), [-150, -50, 50, 150]);
        assert_eq!([1, 2].map(|n| offset(n, 2)), [-150, 150]);
        assert_eq!(offset(1, 1), 0);
    }
}
