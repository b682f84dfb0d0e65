//! Whether a node can be expected to answer.

use std::mem;
use std::time::Duration;

/// After so many times of what it was allowed, a probe is no longer waited for: its caller may hold
/// it without polling it, and must not keep everybody else from the node.
const PROBE_LAPSES: u32 = 10;

/// What is known of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// The node has answered at least once.
    has_answered: bool,
    /// A call to the node was not answered in time, and nothing has been since.
    is_suspect: bool,
    /// Until when the one call is waited for that a suspect node gets, if it is on its way.
    probed_until: Option<Duration>,
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

    /// A call was not answered in time. Returns whether the node is suspect only from now on.
    pub(crate) fn overdue(&mut self) -> bool {
        !mem::replace(&mut self.is_suspect, true)
    }

    /// The node answered, with whatever. Returns whether it was suspect.
    pub(crate) fn answered(&mut self) -> bool {
        self.has_answered = true;
        mem::take(&mut self.is_suspect)
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

        assert!(!health.answered());
        assert!(health.overdue());
        assert!(!health.overdue(), "it was before");
        assert_eq!(admit(&mut health), Admission::Probe);
        assert_eq!(admit(&mut health), Admission::Skip);

        // The probe failed without an answer: the next acquire is the next probe.
        health.probe_ended();
        assert_eq!(admit(&mut health), Admission::Probe);

        // An answer, the probe's or a late one, makes the node whole again.
        assert!(health.answered());
        assert_eq!(admit(&mut health), Admission::Go);
        assert!(health.has_answered());
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
