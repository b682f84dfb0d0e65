//! What a connection owes to calls that were given up, and when it counts as hung.

use std::collections::VecDeque;
use std::time::Duration;

use crate::node::Command;

/// How many calls in a row may go unanswered before the connection counts as hung.
const SILENT_CALLS: u32 = 3;

/// How many calls may be given up without any reply in between before the connection is replaced.
pub(super) const MAX_GIVEN_UP: usize = 1024;

/// When a connection is replaced for the sake of a single doubtful acquire, whose release leaves with
/// that. It leaves room for all else that may delay the two: how long a replaced connection is kept, and
/// its bytes in the kernel, make it the 20 s of rule N12.
const UNDONE_AFTER: Duration = Duration::from_secs(5);

/// Calls on one connection that were sent and given up before their answer.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Calls in a row that got no answer.
    silent: u32,
    /// Whether the server ever answered a call on this connection.
    is_proven: bool,
    /// How many calls were given up, ever.
    given_up: u64,
    /// Of the last of them, when that was, and the release that belongs behind an acquire; `None` for
    /// any other call.
    undos: VecDeque<(Duration, Option<Command>)>,
    is_replaced: bool,
    /// When it was replaced, all that had been given up had had its turn.
    was_settled: bool,
}

/// What a call remembers of its connection from just before it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    given_up: u64,
    silent: u32,
}

/// What follows from a call that was given up.
#[derive(Debug)]
pub(super) enum Verdict {
    Keep,
    /// The connection was replaced already: this release is sent on it at once.
    Undo(Command),
    /// These releases are sent on the connection, and then it is replaced. Said once.
    Replace(Vec<Command>),
}

impl Doubts {
    pub(super) fn marks(&self) -> Marks {
        Marks {
            given_up: self.given_up,
            silent: self.silent,
        }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.is_proven
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// A reply came. Returns whether it was the connection's first.
    pub(super) fn answered(&mut self, marks: Marks) -> bool {
        self.silent = 0;
        // Replies come in order: what was given up before this call was sent has had its turn, and
        // a release on any connection will come behind it.
        let settled = self.given_up - self.undos.len() as u64;
        let done = marks.given_up.saturating_sub(settled);
        for _ in 0..done {
            self.undos.pop_front();
        }
        !std::mem::replace(&mut self.is_proven, true)
    }

    /// A call that was sent ends without an answer: its time is over, or its caller is gone.
    pub(super) fn given_up(
        &mut self,
        undo: Option<Command>,
        marks: Marks,
        is_timed_out: bool,
        now: Duration,
    ) -> Verdict {
        if self.is_replaced {
            let undo = undo.filter(|_| !mutant!(LateUndosForgotten));
            return undo.map_or(Verdict::Keep, Verdict::Undo);
        }
        self.undos.push_back((now, undo));
        self.given_up += 1;
        // Many calls that time out in one stall of the server are one sign of a hung connection,
        // not many: a timeout counts unless another one was counted since the call was sent.
        let counts = is_timed_out && self.silent == marks.silent && !mutant!(HungConnectionsKept);
        self.silent += u32::from(counts);
        if self.undos.len() >= MAX_GIVEN_UP || (counts && self.silent >= SILENT_CALLS) {
            Verdict::Replace(self.replace())
        } else {
            Verdict::Keep
        }
    }

    /// Whether nothing that the server may not have read yet is of importance.
    pub(super) fn was_settled(&self) -> bool {
        self.was_settled
    }

    /// Whether every call that was sent has its answer, or had its turn.
    pub(super) fn is_settled(&self) -> bool {
        self.undos.is_empty() && !self.is_replaced
    }

    /// Since when the oldest acquire is in doubt whose release has not been sent.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let mut undos = self.undos.iter();
        undos.find_map(|(since, undo)| undo.is_some().then_some(*since))
    }

    /// When the connection is to be replaced if nothing is answered before.
    pub(super) fn due(&self) -> Option<Duration> {
        self.oldest()
            .map(|since| since.saturating_add(UNDONE_AFTER))
    }

    /// Returns the releases that belong behind the doubtful acquires.
    pub(super) fn replace(&mut self) -> Vec<Command> {
        if !std::mem::replace(&mut self.is_replaced, true) {
            self.was_settled = self.undos.is_empty();
        }
        let undos = self.undos.drain(..).filter_map(|(_, undo)| undo);
        undos.filter(|_| !mutant!(UndosForgotten)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::{Keys, Token};

    const NOW: Duration = Duration::from_secs(1);

    fn undo(name: u8) -> Option<Command> {
        let keys = Keys::One(Arc::from([name]));
        Some(Command::from(
            keys.release(Token::from_random([0; 16]), Duration::ZERO),
        ))
    }

    /// The keys of the releases that a replacement takes.
    fn replaced(verdict: Verdict) -> Option<String> {
        match verdict {
            Verdict::Replace(undos) => {
                let keys: Vec<u8> = undos.iter().map(|undo| undo.operation().key()[0]).collect();
                Some(String::from_utf8(keys).unwrap())
            }
            Verdict::Keep | Verdict::Undo(_) => None,
        }
    }

    #[test]
    fn three_timeouts_in_a_row_replace_the_connection_with_its_releases_in_order() {
        let mut doubts = Doubts::default();
        let marks = doubts.marks();
        assert!(matches!(
            doubts.given_up(undo(b'a'), marks, true, NOW),
            Verdict::Keep
        ));
        let marks = doubts.marks();
        assert!(matches!(
            doubts.given_up(None, marks, true, NOW),
            Verdict::Keep
        ));
        let marks = doubts.marks();
        let third = doubts.given_up(undo(b'b'), marks, true, NOW);
        assert_eq!(replaced(third).as_deref(), Some("ab"));
        assert!(doubts.is_replaced());
    }

    #[test]
    fn calls_that_end_after_the_replacement_are_undone_at_once() {
        let mut doubts = Doubts::default();
        let marks = doubts.marks();
        assert_eq!(doubts.replace().len(), 0);
        let late = doubts.given_up(undo(b'a'), marks, true, NOW);
        assert!(matches!(late, Verdict::Undo(_)));
        assert!(matches!(
            doubts.given_up(None, marks, true, NOW),
            Verdict::Keep
        ));
    }

    #[test]
    fn a_burst_of_timeouts_is_one_sign_and_a_dropped_call_is_none() {
        let mut doubts = Doubts::default();
        let marks = doubts.marks();
        for _ in 0..10 {
            assert!(matches!(
                doubts.given_up(None, marks, true, NOW),
                Verdict::Keep
            ));
        }
        for _ in 0..10 {
            let marks = doubts.marks();
            assert!(matches!(
                doubts.given_up(None, marks, false, NOW),
                Verdict::Keep
            ));
        }
        assert_eq!(doubts.silent, 1);
    }

    #[test]
    fn a_reply_in_between_begins_the_count_anew() {
        let mut doubts = Doubts::default();
        for _ in 0..5 {
            for _ in 0..2 {
                let marks = doubts.marks();
                assert!(matches!(
                    doubts.given_up(None, marks, true, NOW),
                    Verdict::Keep
                ));
            }
            let marks = doubts.marks();
            doubts.answered(marks);
        }
    }

    #[test]
    fn a_reply_settles_what_was_given_up_before_its_call_was_sent_and_nothing_else() {
        let mut doubts = Doubts::default();
        let first = doubts.marks();
        drop(doubts.given_up(undo(b'a'), first, false, NOW));
        let second = doubts.marks();
        drop(doubts.given_up(undo(b'b'), second, false, NOW));
        assert!(doubts.answered(second), "the first reply");
        assert!(!doubts.answered(first), "an older call settles no more");
        let keys: Vec<_> = doubts
            .replace()
            .iter()
            .map(|undo| undo.operation().key().to_vec())
            .collect();
        assert_eq!(keys, [b"b"]);
    }

    #[test]
    fn calls_that_are_given_up_without_end_replace_the_connection() {
        let mut doubts = Doubts::default();
        let marks = doubts.marks();
        for _ in 1..MAX_GIVEN_UP {
            assert!(matches!(
                doubts.given_up(undo(b'a'), marks, false, NOW),
                Verdict::Keep
            ));
        }
        let last = doubts.given_up(undo(b'b'), marks, false, NOW);
        assert_eq!(replaced(last).map(|keys| keys.len()), Some(MAX_GIVEN_UP));
    }

    #[test]
    fn a_doubtful_acquire_alone_is_undone_after_five_seconds_unless_it_had_its_turn() {
        let mut doubts = Doubts::default();
        let marks = doubts.marks();
        drop(doubts.given_up(None, marks, true, Duration::ZERO));
        assert_eq!((doubts.oldest(), doubts.due()), (None, None));
        drop(doubts.given_up(undo(b'a'), marks, true, NOW));
        drop(doubts.given_up(undo(b'b'), marks, true, 2 * NOW));
        assert_eq!(doubts.oldest(), Some(NOW));
        assert_eq!(doubts.due(), Some(6 * NOW));
        let marks = doubts.marks();
        doubts.answered(marks);
        assert_eq!(doubts.due(), None);
    }
}
