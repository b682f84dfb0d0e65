//! The pause after a failed connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lock_core::NodeError;

use crate::rt::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How often connecting failed in a row, and when it may be tried again.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    last: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    error: NodeError,
    until: Instant,
}

impl Backoff {
    /// The last failure while its pause lasts.
    pub(crate) fn may_dial(&self, now: Instant) -> Result<(), NodeError> {
        match &self.last {
            Some(failure) if now < failure.until => Err(failure.error.clone()),
            _ => Ok(()),
        }
    }

    /// What to say while a connect takes too long to wait for: the cause of the last failure is
    /// most likely that of this one.
    pub(crate) fn connecting(&self) -> NodeError {
        match &self.last {
            Some(failure) => failure.error.clone(),
            None => NodeError::not_sent("still connecting"),
        }
    }

    pub(crate) fn failed(&mut self, now: Instant, error: NodeError) {
        let pause = pause(self.failures, RandomState::new().hash_one(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.last = Some(Failure {
            error,
            until: now + pause,
        });
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Doubles from the first pause to the longest, and takes a random part between half and all of
/// it, so that many processes do not come back to a server all at once.
fn pause(failures: u32, random: u64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    let half = doubled.min(LONGEST_PAUSE) / 2;
    half + half.mul_f64((random % 1024) as f64 / 1023.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_from_10_to_250_ms_and_never_further() {
        assert_eq!(pause(0, 1023), Duration::from_millis(10));
        assert_eq!(pause(0, 0), Duration::from_millis(5));
        assert_eq!(pause(3, 1023), Duration::from_millis(80));
        for failures in [5, 16, 1000, u32::MAX] {
            assert_eq!(pause(failures, 1023), LONGEST_PAUSE);
            assert_eq!(pause(failures, 0), LONGEST_PAUSE / 2);
        }
    }

    #[test]
    fn a_failure_stands_for_its_pause_and_no_longer() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        assert!(backoff.may_dial(now).is_ok());
        backoff.failed(now, NodeError::not_sent("down"));
        assert!(backoff.may_dial(now).is_err());
        assert!(backoff.may_dial(now + LONGEST_PAUSE).is_ok());
    }
}
