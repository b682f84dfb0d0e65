//! How long a lock can be relied on, and how long a node may take.

use std::time::Duration;

use crate::error::InvalidInput;
use crate::ttl::Ttl;

/// The part of the drift allowance that does not depend on the ttl: Redis expires keys with a
/// precision of one millisecond, and clocks are read in whole ones.
const DRIFT_BASE: Duration = Duration::from_millis(2);

/// The longest time that a node may take for a release, unless it may take longer for any command.
const MAX_RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// By how much a wall clock may run ahead before that says that the machine was paused, unless the drift of
/// clocks allows for more: a clock that is corrected gradually gains less.
const MIN_PAUSE: Duration = Duration::from_millis(500);

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    /// What the wall clock shows; `None` if pauses of the machine are not looked for.
    pub(crate) wall: Option<Duration>,
}

impl Moment {
    /// For how long the machine was paused since then, as the wall clock says: the monotonic one stands
    /// still in a virtual machine that is paused.
    pub(crate) fn paused_since(self, base: Self) -> Duration {
        let walls = self.wall.zip(base.wall);
        let passed = walls.map(|(wall, base)| wall.saturating_sub(base));
        let awake = self.now.saturating_sub(base.now);
        passed.unwrap_or_default().saturating_sub(awake)
    }
}

/// The times of one lock, derived from its ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) ttl: Ttl,
    /// How long a node that has answered before may take.
    pub(crate) node_timeout: Duration,
    /// What of the ttl is certain, counted from before the first send: `ttl - drift`.
    pub(crate) validity: Duration,
}

impl Timing {
    /// The longest node timeout that is chosen by default.
    pub(crate) const MAX_NODE_TIMEOUT: Duration = Duration::from_millis(100);

    /// How long a node may take for a release where it may take `node_timeout` for other commands. Other
    /// commands are tried again or done without; of a release its caller is told, for whom "not certain" is of
    /// no use when it is so a moment later.
    pub(crate) fn release_timeout(node_timeout: Duration) -> Duration {
        let patience = node_timeout.saturating_mul(10).min(MAX_RELEASE_TIMEOUT);
        patience.max(node_timeout)
    }

    /// The longest time by which a wall clock may run ahead of the monotonic one while the lock is held.
    pub(crate) fn longest_pause(&self) -> Duration {
        let drift = self.ttl.as_duration().saturating_sub(self.validity);
        drift.max(MIN_PAUSE)
    }

    /// Takes a ttl apart; refuses one that leaves nothing to rely on.
    pub(crate) fn new(
        ttl: Duration,
        drift_factor: f64,
        node_timeout: Option<Duration>,
    ) -> Result<Self, InvalidInput> {
        let ttl = Ttl::new(ttl)?;
        let whole = ttl.as_duration();
        let node_timeout = node_timeout.unwrap_or(Self::MAX_NODE_TIMEOUT.min(whole / 10));
        let mut drift = whole.mul_f64(drift_factor).saturating_add(DRIFT_BASE);
        if mutant!(NoDrift) {
            drift = Duration::ZERO;
        }
        let validity = whole.saturating_sub(drift);
        if validity <= node_timeout {
            return Err(InvalidInput::TtlLeavesNothing {
                ttl: whole,
                drift,
                node_timeout,
            });
        }
        Ok(Self {
            ttl,
            node_timeout,
            validity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn timing(ttl: Duration) -> Result<Timing, InvalidInput> {
        Timing::new(ttl, 0.01, None)
    }

    #[test]
    fn validity_is_the_ttl_less_one_percent_and_two_milliseconds() {
        let timing = timing(10_000 * MS).unwrap();
        assert_eq!(timing.validity, 9_898 * MS);
        assert_eq!(timing.node_timeout, 100 * MS);
        let quick = Timing::new(300 * MS, 0.01, None).unwrap();
        assert_eq!(quick.node_timeout, 30 * MS);
    }

    #[test]
    fn a_ttl_that_drift_and_node_timeout_use_up_is_refused_with_all_three_values() {
        for ttl in [MS, 2 * MS] {
            assert!(matches!(
                timing(ttl),
                Err(InvalidInput::TtlLeavesNothing { .. })
            ));
        }
        assert!(timing(3 * MS).is_ok());
        let error = Timing::new(50 * MS, 0.01, Some(100 * MS)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ttl 50 ms leaves no validity: clock drift takes 2.5 ms of it and the node timeout \
             100 ms"
        );
    }

    #[test]
    fn a_release_may_take_ten_times_as_long_as_other_commands_but_no_more_than_a_second() {
        let release = |node_timeout: u32| Timing::release_timeout(node_timeout * MS);
        assert_eq!(release(30), 300 * MS);
        assert_eq!(release(100), 1_000 * MS);
        assert_eq!(release(500), 1_000 * MS);
        assert_eq!(release(2_000), 2_000 * MS);
        assert_eq!(Timing::release_timeout(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn no_ttl_overflows() {
        assert!(timing(Duration::MAX).is_err());
        assert!(timing(Ttl::MAX.as_duration()).is_ok());
        assert!(Timing::new(MS, 0.01, Some(Duration::MAX)).is_err());
    }
}
