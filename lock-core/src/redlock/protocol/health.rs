//! Whether a node can be expected to answer.

/// What is known of one node, as bits of one byte, so that it can be shared as an atomic and costs
/// nothing while all is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health(pub(crate) u8);

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
    /// The node has answered at least once.
    const ANSWERED: u8 = 1;
    /// A call to the node was not answered in time, and nothing has been since.
    const SUSPECT: u8 = 2;
    /// The one acquire that a suspect node gets is on its way.
    const PROBED: u8 = 4;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(crate) fn has_answered(self) -> bool {
        self.has(Self::ANSWERED)
    }

    pub(crate) fn is_suspect(self) -> bool {
        self.has(Self::SUSPECT)
    }

    /// Whether there is nothing that an answer would change.
    pub(crate) fn is_fine(self) -> bool {
        self.0 == Self::ANSWERED
    }

    /// An acquire wants to ask the node.
    pub(crate) fn admit(self) -> (Admission, Self) {
        if !self.is_suspect() {
            (Admission::Go, self)
        } else if self.has(Self::PROBED) {
            (Admission::Skip, self)
        } else {
            (Admission::Probe, Self(self.0 | Self::PROBED))
        }
    }

    /// A call was not answered in time.
    pub(crate) fn overdue(self) -> Self {
        Self(self.0 | Self::SUSPECT)
    }

    /// The node answered, with whatever.
    pub(crate) fn answered(self) -> Self {
        Self((self.0 | Self::ANSWERED) & !Self::SUSPECT)
    }

    /// The probe came to an end.
    pub(crate) fn probe_ended(self) -> Self {
        Self(self.0 & !Self::PROBED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_node_gets_one_acquire_at_a_time_until_it_answers() {
        let fresh = Health::default();
        assert_eq!(fresh.admit(), (Admission::Go, fresh));
        assert!(!fresh.has_answered());

        let suspect = fresh.answered().overdue();
        let (admission, probed) = suspect.admit();
        assert_eq!(admission, Admission::Probe);
        assert_eq!(probed.admit(), (Admission::Skip, probed));

        // The probe failed without an answer: the next acquire is the next probe.
        let (admission, probed) = probed.probe_ended().admit();
        assert_eq!(admission, Admission::Probe);

        // An answer, the probe's or a late one, makes the node whole again.
        let well = probed.answered();
        assert_eq!(well.admit().0, Admission::Go);
        assert!(well.probe_ended().is_fine());
    }

    #[test]
    fn a_node_that_became_suspect_again_while_probed_is_not_probed_twice() {
        let (_, probed) = Health::default().overdue().admit();
        assert_eq!(probed.answered().overdue().admit().0, Admission::Skip);
    }
}
