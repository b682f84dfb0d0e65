//! When a lock that is held is extended automatically, and what nodes say of many at once.

use std::time::Duration;

use super::extend::verdict;
use super::{Ballots, ExtendVerdict, KeyAnswer, NodeSet, Quorum};
use crate::error::InvalidInput;

/// The shortest pause before an extension that failed is tried again.
const MIN_RETRY: Duration = Duration::from_millis(10);

/// A round comes earlier by up to this share of the interval, to be one with others.
const SLACK: u32 = 8;

/// When one lock is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// From the start of one extension to that of the next.
    pub(crate) interval: Duration,
    /// For how long after it was acquired.
    pub(crate) max_hold: Duration,
}

impl Renewal {
    /// With the interval that was asked for, or a third of the validity.
    pub(crate) fn new(
        validity: Duration,
        interval: Option<Duration>,
        max_hold: Duration,
    ) -> Result<Self, InvalidInput> {
        let max = validity.mul_f64(2.0 / 3.0);
        let interval = interval.unwrap_or(validity / 3);
        if interval > max || interval < Duration::from_millis(1) {
            return Err(InvalidInput::ExtendInterval { interval, max });
        }
        Ok(Self { interval, max_hold })
    }

    /// From when on an extension that is due then may go along with others.
    pub(crate) fn earliest(&self, due: Duration) -> Duration {
        due.saturating_sub(self.interval / SLACK)
    }

    /// How long after it was begun an extension begins anew, if nothing is known of it by then: its runtime
    /// may stand still.
    pub(crate) fn rescue_after(&self) -> Duration {
        self.interval / 2
    }

    /// When to try again after a failure at `now`, with so much of the validity left; `None` if
    /// there is no point any more.
    pub(crate) fn retry_at(
        &self,
        now: Duration,
        left: Duration,
        node_timeout: Duration,
    ) -> Option<Duration> {
        let pause = (left / 8).min(self.interval);
        let pause = pause.max(node_timeout / 2);
        let pause = pause.max(MIN_RETRY.min(self.interval));
        (!left.is_zero()).then(|| now.saturating_add(pause))
    }
}

/// One node's answer about one of many locks; `None` if it does not count.
pub(crate) type KeyVote = Option<KeyAnswer>;

/// The votes on the extension of many locks, one command to each node.
#[derive(Debug)]
pub(crate) struct RenewalRound {
    quorum: Quorum,
    pub(crate) ballots: Ballots<Vec<KeyVote>>,
}

impl RenewalRound {
    pub(crate) fn new(quorum: Quorum) -> Self {
        let ballots = Ballots::new(quorum.nodes());
        Self { quorum, ballots }
    }

    /// What became of the lock at this place, at the first moment at which that is certain.
    pub(crate) fn verdict(&self, lock: usize) -> Option<ExtendVerdict> {
        let votes = self.ballots.answers();
        let votes = votes.filter_map(|(_, votes)| votes.get(lock).copied().flatten());
        let (mut ours, mut gone) = (0, 0);
        for answer in votes {
            match answer {
                KeyAnswer::Ours => ours += 1,
                KeyAnswer::Missing | KeyAnswer::Foreign => gone += 1,
            }
        }
        if mutant!(RenewalByReachable) && self.ballots.open() == 0 && ours > gone {
            return Some(ExtendVerdict::Extended);
        }
        verdict(self.quorum, ours, gone, self.ballots.open())
    }

    /// The nodes that have forgotten the lock at this place.
    pub(crate) fn missing(&self, lock: usize) -> NodeSet {
        let is_missing = |votes: &Vec<KeyVote>| votes.get(lock) == Some(&Some(KeyAnswer::Missing));
        let missing = self
            .ballots
            .answers()
            .filter(|(_, votes)| is_missing(votes));
        missing.fold(NodeSet::EMPTY, |set, (node, _)| set.with(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeError;
    use crate::redlock::protocol::Timing;

    const MS: Duration = Duration::from_millis(1);

    fn timing(ttl_in_millis: u32) -> Timing {
        Timing::new(ttl_in_millis * MS, 0.01, None).unwrap()
    }

    #[test]
    fn a_lock_is_extended_each_third_of_its_validity_unless_told_otherwise() {
        let renewal = |interval| Renewal::new(timing(10_000).validity, interval, MS);
        // The validity is 9,898 ms.
        let third = renewal(None).unwrap().interval;
        assert!(third > 3_299 * MS && third < 3_300 * MS, "{third:?}");
        assert_eq!(renewal(Some(MS)).unwrap().interval, MS);
        assert!(renewal(Some(6_598 * MS)).is_ok());
        for interval in [
            Duration::ZERO,
            MS / 2,
            6_600 * MS,
            10_000 * MS,
            Duration::MAX,
        ] {
            let error = renewal(Some(interval)).unwrap_err();
            assert!(
                matches!(error, InvalidInput::ExtendInterval { .. }),
                "{error}"
            );
        }
        let error = renewal(Some(9_000 * MS)).unwrap_err().to_string();
        let expected = "extend_interval 9000 ms is outside 1 ms..=6598.666666 ms";
        assert!(
            error.starts_with("extend_interval 9000 ms is outside 1 ms..=6598"),
            "{error} {expected}"
        );
    }

    #[test]
    fn the_shortest_lock_can_be_extended() {
        for ttl in 5..100 {
            let renewal = Renewal::new(timing(ttl).validity, None, MS);
            assert!(renewal.is_ok() || timing(ttl).validity < 3 * MS, "{ttl}");
        }
    }

    #[test]
    fn a_failure_is_tried_again_sooner_and_sooner_until_the_validity_ends() {
        let renewal = Renewal::new(timing(10_000).validity, None, MS).unwrap();
        let now = 1_000 * MS;
        let retry = |left| renewal.retry_at(now, left, 20 * MS);
        assert_eq!(retry(8_000 * MS), Some(2_000 * MS));
        assert_eq!(retry(80_000 * MS), Some(now + renewal.interval));
        assert_eq!(retry(40 * MS), Some(1_010 * MS), "not all the time");
        assert_eq!(retry(Duration::ZERO), None);
    }

    #[test]
    fn each_lock_of_a_round_has_a_verdict_of_its_own() {
        use ExtendVerdict::*;
        use KeyAnswer::{Foreign, Missing, Ours};
        let mut round = RenewalRound::new(Quorum::majority(5));
        for node in 0..5 {
            round.ballots.ask(node, Duration::ZERO, 100 * MS);
        }
        round
            .ballots
            .record(0, Ok(vec![Some(Ours), Some(Ours), Some(Missing), None]));
        round.ballots.record(
            1,
            Ok(vec![Some(Ours), Some(Missing), Some(Foreign), Some(Ours)]),
        );
        let verdicts = |round: &RenewalRound| [0, 1, 2, 3].map(|lock| round.verdict(lock));
        assert_eq!(verdicts(&round), [None; 4]);
        round.ballots.record(
            2,
            Ok(vec![Some(Ours), Some(Ours), Some(Missing), Some(Ours)]),
        );
        assert_eq!(verdicts(&round), [Some(Extended), None, Some(Lost), None]);
        round
            .ballots
            .record(3, Err(NodeError::connection("broken")));
        assert_eq!(round.verdict(1), None, "one vote is open");
        round.ballots.expire(100 * MS);
        let rest = [
            Some(Extended),
            Some(Unavailable),
            Some(Lost),
            Some(Unavailable),
        ];
        assert_eq!(verdicts(&round), rest);
        assert_eq!(round.missing(2), NodeSet::of(0).with(2));
        assert_eq!(round.missing(0), NodeSet::EMPTY);
    }
}
