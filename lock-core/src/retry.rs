//! How long to pause between attempts.

use std::time::Duration;

/// How long an acquire that waits pauses between its attempts. The policy does not limit their
/// number: the wait ends with the request's `max_wait`.
///
/// Any duration is legal. With zero, attempts follow each other without a pause, each bounded by the
/// node timeout; but after an outage there is always a pause, of at least 1 ms.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{LockRequest, RetryPolicy};
///
/// let steady = RetryPolicy::new().delay(Duration::from_millis(20)).backoff(1);
/// let request = LockRequest::new("invoice-7").retry(steady);
/// assert_eq!(request.options().retry, Some(steady));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    delay: Duration,
    max_delay: Duration,
    backoff: u32,
    jitter: Jitter,
}

/// How chance changes a pause, so that rivals do not retry in lockstep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Pauses are exact. Rivals that started together stay together.
    None,
    /// A pause is chosen uniformly between zero and the delay.
    #[default]
    Full,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(5),
            max_delay: Duration::from_millis(200),
            backoff: 2,
            jitter: Jitter::Full,
        }
    }
}

impl RetryPolicy {
    /// The defaults: from 5 ms doubling to 200 ms, with full jitter.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The delay after the first attempt. Defaults to 5 ms.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The longest delay that backoff leads to. Defaults to 200 ms; a longer [`delay`](Self::delay)
    /// takes precedence.
    #[must_use]
    pub fn max_delay(mut self, max_delay: Duration) -> Self {
        self.max_delay = max_delay;
        self
    }

    /// The factor by which the delay grows after each attempt. With 1 it stays the same, and 0 counts
    /// as 1. Defaults to 2.
    #[must_use]
    pub fn backoff(mut self, factor: u32) -> Self {
        self.backoff = factor;
        self
    }

    /// How chance changes each pause. Defaults to [`Jitter::Full`].
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// See [`custom::pause`](crate::custom::pause).
    pub(crate) fn pause(&self, attempt: u32, chance: f64) -> Duration {
        let limit = self.max_delay.max(self.delay);
        let factor = self
            .backoff
            .max(1)
            .checked_pow(attempt.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let delay = self.delay.saturating_mul(factor).min(limit);
        match self.jitter {
            Jitter::None => delay,
            Jitter::Full => share(delay, chance),
        }
    }
}

/// Returns the share `chance` of `whole`. It saturates instead of failing, whatever the numbers are.
pub(crate) fn share(whole: Duration, chance: f64) -> Duration {
    let seconds = whole.as_secs_f64() * chance.clamp(0.0, 1.0);
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(whole)
        .min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let policy = RetryPolicy::new().jitter(Jitter::None);
        let pauses = [1, 2, 3, 6, 7, 1000, u32::MAX].map(|n| policy.pause(n, 0.5));
        assert_eq!(pauses, [5, 10, 20, 160, 200, 200, 200].map(|ms| ms * MS));
    }

    #[test]
    fn a_delay_above_the_limit_wins_and_backoff_of_one_or_zero_keeps_it() {
        for backoff in [0, 1] {
            let policy = RetryPolicy::new().delay(500 * MS).backoff(backoff);
            let policy = policy.jitter(Jitter::None);
            assert_eq!(policy.pause(9, 0.0), 500 * MS);
        }
    }

    #[test]
    fn full_jitter_is_a_share_of_the_delay() {
        let policy = RetryPolicy::new();
        assert_eq!(policy.pause(1, 0.0), Duration::ZERO);
        assert_eq!(policy.pause(1, 0.5), Duration::from_micros(2500));
        assert_eq!(
            policy.pause(1, f64::NAN),
            Duration::ZERO.max(policy.pause(1, f64::NAN))
        );
    }

    #[test]
    fn any_duration_is_legal() {
        let zero = RetryPolicy::new()
            .delay(Duration::ZERO)
            .max_delay(Duration::ZERO);
        assert_eq!(zero.pause(u32::MAX, 0.9), Duration::ZERO);
        let longest = RetryPolicy::new().delay(Duration::MAX);
        assert!(longest.pause(u32::MAX, 0.999) <= Duration::MAX);
        assert_eq!(longest.jitter(Jitter::None).pause(7, 0.0), Duration::MAX);
    }
}
