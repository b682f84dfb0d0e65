//! What follows a round that was not won: another attempt, and when, or the end.

use std::time::Duration;

use super::Verdict;
use crate::retry::RetryPolicy;

/// After an outage the next attempt follows no sooner than this: calls to dead nodes fail at once,
/// so that a policy without delay would turn in a circle without rest.
const OUTAGE_PAUSE: Duration = Duration::from_millis(1);

/// How long a caller is ready to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all; only rivals that share the votes are given time to sort themselves out.
    Try,
    /// Until a moment, or for ever.
    Wait {
        until: Option<Duration>,
        retry: RetryPolicy,
        give_up_when_held: bool,
    },
}

/// How a round asks the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    /// The anchor alone first, the others only if it does not refuse.
    pub(crate) anchor_first: bool,
    /// Which nodes are asked to name the holder: it costs them a script.
    pub(crate) tell: Tell,
    /// When the round ends even if it is undecided.
    pub(crate) cut_at: Option<Duration>,
}

/// Which nodes are asked to name the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Nobody,
    Anchor,
    All,
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt at this moment.
    Attempt { at: Duration, asking: Asking },
    /// The end: the error comes from the last whole round.
    GiveUp,
}

/// The attempts of one call.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    patience: Patience,
    node_timeout: Duration,
    until: Option<Duration>,
    attempts: u32,
    tell: Tell,
    /// The one attempt that is made shortly before the deadline has been announced.
    last_call: bool,
}

impl Wait {
    pub(crate) fn new(patience: Patience, started: Duration, node_timeout: Duration) -> Self {
        let until = match patience {
            Patience::Try => Some(started.saturating_add(node_timeout.saturating_mul(2))),
            Patience::Wait { until, .. } => until,
        };
        let tell = match patience {
            // Who only wants to know whether somebody else has it asks that at once.
            Patience::Wait {
                give_up_when_held: true,
                ..
            } => Tell::All,
            _ => Tell::Nobody,
        };
        Self {
            patience,
            node_timeout,
            until,
            attempts: 0,
            tell,
            last_call: false,
        }
    }

    /// The first attempt: it is never cut short.
    pub(crate) fn first(&mut self) -> Asking {
        self.attempts = 1;
        self.asking(false, None)
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Decides what follows a round that was not won; `chance` is random in `0.0..1.0`.
    pub(crate) fn after(&mut self, verdict: &Verdict, now: Duration, chance: f64) -> Next {
        if self.is_final(verdict) {
            return Next::GiveUp;
        }
        if matches!(verdict, Verdict::Contended { .. } | Verdict::Vetoed) {
            self.tell = match self.patience {
                Patience::Wait {
                    give_up_when_held: false,
                    ..
                } => Tell::Anchor,
                _ => Tell::All,
            };
        }
        let mut pause = self.pause(chance);
        if matches!(verdict, Verdict::Unavailable { .. }) {
            pause = pause.max(OUTAGE_PAUSE);
        }
        let Some(at) = self.next_at(now, pause) else {
            return Next::GiveUp;
        };
        self.attempts = self.attempts.saturating_add(1);
        // After a veto all nodes are asked again: the anchor alone may hold a key that nobody
        // needs any more, and must not keep everybody out.
        let split = matches!(verdict, Verdict::Contended { split: true, .. });
        let asking = self.asking(split, self.until);
        Next::Attempt { at, asking }
    }

    fn asking(&self, anchor_first: bool, cut_at: Option<Duration>) -> Asking {
        Asking {
            anchor_first,
            tell: self.tell,
            cut_at,
        }
    }

    /// Whether no further attempt could change the answer.
    fn is_final(&self, verdict: &Verdict) -> bool {
        match (self.patience, verdict) {
            (_, Verdict::Won | Verdict::Unavailable { denied: true }) => true,
            (Patience::Try, Verdict::Contended { holder, split }) => holder.is_some() || !split,
            (Patience::Try, Verdict::Vetoed) => false,
            (Patience::Try, Verdict::TooLate | Verdict::Unavailable { .. }) => true,
            (
                Patience::Wait {
                    give_up_when_held, ..
                },
                Verdict::Contended { holder, .. },
            ) => give_up_when_held && holder.is_some(),
            (Patience::Wait { .. }, _) => false,
        }
    }

    fn pause(&self, chance: f64) -> Duration {
        match self.patience {
            Patience::Wait { retry, .. } => retry.pause(self.attempts, chance),
            Patience::Try => {
                let pause = RetryPolicy::default().pause(self.attempts, chance);
                pause.min(self.node_timeout / 2)
            }
        }
    }

    /// When the next attempt is due; `None` if the time is over. A pause that reaches beyond the
    /// deadline is cut so that one last attempt still fits before it.
    fn next_at(&mut self, now: Duration, pause: Duration) -> Option<Duration> {
        let at = now.saturating_add(pause);
        let Some(until) = self.until else {
            return Some(at);
        };
        if at < until {
            return Some(at);
        }
        if now >= until || self.last_call {
            return None;
        }
        self.last_call = true;
        let room = self.node_timeout.min((until - now) / 2);
        Some(until - room)
    }
}

#[cfg(test)]
mod tests;
