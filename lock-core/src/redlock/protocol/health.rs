//! Whether a node can be expected to answer.

use std::mem;
use std::time::Duration;

/// After so many times of what it was allowed, a probe is no longer waited for: its caller may hold
/// it without polling it, and must not keep everybody else from the node.
const PROBE_LAPSES: u32 = 10;

/// For how long a node that was down has to serve in time before it is up: one that is late now and then
/// must not fill a log.
const STEADY: Duration = Duration::from_secs(1);

/// What comes later than after so many times of what is allowed comes of a pause, and says nothing of the timeout.
const LATE_UP_TO: u32 = 10;

/// What is known of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// The node has answered at least once.
    has_answered: bool,
    /// A call to the node was not answered in time, and nothing has been since.
    is_suspect: bool,
    /// Until when the one call is waited for that a suspect node gets, if it is on its way.
    probed_until: Option<Duration>,
    /// It does not serve, as operators were told.
    is_down: bool,
    /// It was out of memory when it failed last: what sets no key, it serves all the same.
    is_full: bool,
    /// Since when it has served in time, while it is down.
    well_since: Option<Duration>,
    /// The time after which it served, if that was too late.
    late: Option<Duration>,
}

/// When a call was answered, and whether in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// How long it may take.
    pub(crate) allowed: Duration,
    /// It was to set a key.
    pub(crate) sets_keys: bool,
}

/// Whether an acquire may ask a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// As any other.
    Go,
    /// The node is suspect, and this acquire is the one that finds out how it is.
    Probe,
    /// The node is suspect and somebody else is finding out: do not pile up calls.
    Skip,
}

impl Health {
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// An acquire wants to ask the node at `now`, which then has `within` to answer.
    pub(crate) fn admit(&mut self, now: Duration, within: Duration) -> Admission {
        if !self.is_suspect || mutant!(SuspectsNotSpared) {
            return Admission::Go;
        }
        if mutant!(SuspectsNeverProbed) || self.probed_until.is_some_and(|until| now < until) {
            return Admission::Skip;
        }
        self.probed_until = Some(now.saturating_add(within.saturating_mul(PROBE_LAPSES)));
        Admission::Probe
    }

    /// The time after which its last answer came, if that was too late.
    pub(crate) fn late(&self) -> Option<Duration> {
        self.late
    }

    /// Nothing is the matter with it.
    pub(crate) fn is_fine(&self) -> bool {
        self.has_answered && !self.is_suspect && !self.is_down
    }

    /// A call was not answered in time. Returns whether the node is down only from now on.
    pub(crate) fn overdue(&mut self) -> bool {
        self.is_suspect = true;
        self.goes_down()
    }

    /// The node answered, with whatever.
    pub(crate) fn answered(&mut self) {
        self.has_answered = true;
        self.is_suspect = false;
    }

    /// A call has failed, as any other would have. Returns whether the node is down only from now on.
    pub(crate) fn failed(&mut self) -> bool {
        self.late = None;
        self.goes_down()
    }

    /// A call has failed since the node is out of memory, as any other would have that sets a key. Returns whether
    /// the node is down only from now on.
    pub(crate) fn failed_full(&mut self) -> bool {
        let is_news = self.failed();
        self.is_full = true;
        is_news
    }

    fn goes_down(&mut self) -> bool {
        self.well_since = None;
        self.is_full = false;
        !mem::replace(&mut self.is_down, true)
    }

    /// The node did what it was asked for. Returns whether it was down, and is up from now on. `answered` is
    /// unknown for a call that began while the node was fine.
    pub(crate) fn served(&mut self, answered: Option<Answered>) -> bool {
        self.answered();
        let proves = |answered: &Answered| self.is_down && (answered.sets_keys || !self.is_full);
        let Some(answered) = answered.filter(proves) else {
            return false;
        };
        let Answered {
            at, took, allowed, ..
        } = answered;
        self.is_full = false;
        let is_late = took > allowed;
        let is_by_timeout = took <= allowed.saturating_mul(LATE_UP_TO);
        self.late = (is_late && is_by_timeout).then_some(took);
        if is_late {
            self.well_since = None;
            return false;
        }
        // Another runtime's clock may show less.
        let since = self.well_since.filter(|since| *since <= at).unwrap_or(at);
        let is_up = at - since >= STEADY;
        self.is_down = !is_up;
        self.well_since = (!is_up).then_some(since);
        is_up
    }

    /// The probe came to an end.
    pub(crate) fn probe_ended(&mut self) {
        self.probed_until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(100);
    const NOW: Duration = Duration::from_secs(1);

    fn admit(health: &mut Health) -> Admission {
        health.admit(NOW, WITHIN)
    }

    #[test]
    fn a_suspect_node_gets_one_acquire_at_a_time_until_it_answers() {
        let mut health = Health::default();
        assert_eq!(admit(&mut health), Admission::Go);
        assert!(!health.has_answered());

        health.answered();
        health.overdue();
        health.overdue();
        assert_eq!(admit(&mut health), Admission::Probe);
        assert_eq!(admit(&mut health), Admission::Skip);

        // The probe failed without an answer: the next acquire is the next probe.
        health.probe_ended();
        assert_eq!(admit(&mut health), Admission::Probe);

        // An answer, the probe's or a late one, makes the node whole again.
        health.answered();
        assert_eq!(admit(&mut health), Admission::Go);
        assert!(health.has_answered());
    }

    #[test]
    fn a_node_is_down_from_the_first_failure_and_up_after_a_second_in_time() {
        const MS: Duration = Duration::from_millis(1);
        let answer = |at: u32, took: u32| {
            Some(Answered {
                at: at * MS,
                took: took * MS,
                allowed: WITHIN,
                sets_keys: false,
            })
        };
        for fails in [Health::failed, Health::overdue] {
            let mut health = Health::default();
            assert!(!health.served(answer(0, 1)), "it was not down");
            assert!(health.is_fine());
            assert!(fails(&mut health));
            assert!(!fails(&mut health), "it was before");
            // Late, or unknown.
            assert!(!health.served(answer(1_000, 101)));
            assert!(!health.served(None));
            assert_eq!(health.late(), Some(101 * MS));
            // In time from here on, and again after a failure or a late answer.
            assert!(!health.served(answer(5_000, 100)));
            assert_eq!(health.late(), None);
            assert!(!health.served(answer(5_999, 1)));
            assert!(!fails(&mut health));
            assert!(!health.served(answer(6_000, 1)));
            assert!(!health.served(answer(6_999, 101)));
            assert!(!health.served(answer(7_000, 1)));
            assert!(!health.is_fine());
            assert!(health.served(answer(8_000, 1)));
            assert!(health.is_fine());
            assert!(!health.served(answer(8_001, 1)), "it is up");
            assert!(fails(&mut health));
            // By the clock of another runtime.
            assert!(!health.served(answer(900_000, 1)));
            assert!(!health.served(answer(1_000, 1)));
            assert!(health.served(answer(2_000, 1)));
        }
    }

    #[test]
    fn how_late_a_node_was_is_known_until_it_is_in_time_or_fails_for_another_reason() {
        let late = Answered {
            at: NOW,
            took: WITHIN * 2,
            allowed: WITHIN,
            sets_keys: false,
        };
        let mut health = Health::default();
        health.overdue();
        health.served(Some(late));
        health.overdue();
        assert_eq!(health.late(), Some(WITHIN * 2));
        health.failed();
        assert_eq!(health.late(), None);
        health.served(Some(late));
        health.served(Some(Answered {
            took: WITHIN,
            ..late
        }));
        assert_eq!(health.late(), None);
    }

    #[test]
    fn an_answer_after_a_pause_is_late_and_says_nothing_of_the_timeout() {
        let late = |took| Answered {
            at: NOW,
            took,
            allowed: WITHIN,
            sets_keys: true,
        };
        let mut health = Health::default();
        health.overdue();
        health.served(Some(late(WITHIN * 10)));
        assert_eq!(health.late(), Some(WITHIN * 10));
        let pause = WITHIN * 10 + Duration::from_nanos(1);
        assert!(!health.served(Some(late(pause))));
        assert_eq!(health.late(), None);
        assert!(!health.is_fine());
    }

    #[test]
    fn a_node_without_memory_is_up_again_when_it_has_set_keys() {
        let answer = |seconds, sets_keys| {
            Some(Answered {
                at: NOW * seconds,
                took: WITHIN,
                allowed: WITHIN,
                sets_keys,
            })
        };
        let mut health = Health::default();
        assert!(health.failed_full());
        assert!(!health.served(answer(1, false)));
        assert!(!health.served(answer(9, false)), "a release, say");
        assert!(!health.served(answer(10, true)));
        assert!(!health.failed_full());
        assert!(!health.served(answer(20, false)));
        assert!(!health.served(answer(21, true)));
        // From here on, whatever it serves counts.
        assert!(health.served(answer(22, false)));
        assert!(health.failed_full());
        assert!(!health.overdue());
        assert!(!health.served(answer(30, false)));
        assert!(health.served(answer(31, false)), "it failed otherwise last");
    }

    #[test]
    fn a_node_that_became_suspect_again_while_probed_is_not_probed_twice() {
        let mut health = Health::default();
        health.overdue();
        assert_eq!(admit(&mut health), Admission::Probe);
        health.answered();
        health.overdue();
        assert_eq!(admit(&mut health), Admission::Skip);
    }

    #[test]
    fn a_probe_that_nobody_polls_is_waited_for_ten_times_as_long_as_it_may_take() {
        let mut health = Health::default();
        health.overdue();
        assert_eq!(admit(&mut health), Admission::Probe);
        let lapsed = NOW + WITHIN * 10;
        let before = lapsed - Duration::from_nanos(1);
        assert_eq!(health.admit(before, WITHIN), Admission::Skip);
        assert_eq!(health.admit(lapsed, WITHIN), Admission::Probe);
        assert_eq!(health.admit(lapsed, WITHIN), Admission::Skip);
    }
}
