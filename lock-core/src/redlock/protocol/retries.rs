//! What follows a round that was not won: another attempt, and when, or the end.

use std::time::Duration;

use super::Verdict;
use crate::retry::RetryPolicy;

/// After an outage the next attempt follows no sooner than this: calls to dead nodes fail at once,
/// so that a policy without delay would turn in a circle without rest.
const OUTAGE_PAUSE: Duration = Duration::from_millis(1);

/// How long a caller is ready to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitPolicy {
    /// Not at all; only rivals that share the votes are given time to sort themselves out.
    Try,
    /// Until a moment, or for ever.
    Wait {
        until: Option<Duration>,
        retry: RetryPolicy,
        give_up_when_held: bool,
        give_up_when_unavailable: bool,
    },
}

/// How a round asks the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskPlan {
    /// The anchor alone first, the others only if it does not refuse.
    pub(crate) anchor_first: bool,
    /// Which nodes are asked to name the holder: it costs them a script.
    pub(crate) report_holder: ReportHolder,
    /// When the round ends even if it is undecided.
    pub(crate) cut_at: Option<Duration>,
}

/// Which nodes are asked to name the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportHolder {
    Nowhere,
    AtAnchor,
    Everywhere,
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt at this moment.
    Attempt { at: Duration, ask: AskPlan },
    /// The end: the error comes from the last whole round.
    GiveUp,
}

/// The attempts of one call.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    wait_policy: WaitPolicy,
    node_timeout: Duration,
    until: Option<Duration>,
    attempts: u32,
    report_holder: ReportHolder,
    /// The one attempt that is made shortly before the deadline has been announced.
    last_call: bool,
}

impl Retries {
    pub(crate) fn new(wait_policy: WaitPolicy, started: Duration, node_timeout: Duration) -> Self {
        let until = match wait_policy {
            WaitPolicy::Try => Some(started.saturating_add(node_timeout.saturating_mul(2))),
            WaitPolicy::Wait { until, .. } => until,
        };
        let report_holder = match wait_policy {
            // A caller that only wants to know whether it is held asks that at once.
            WaitPolicy::Wait {
                give_up_when_held: true,
                ..
            } => ReportHolder::Everywhere,
            _ => ReportHolder::Nowhere,
        };
        Self {
            wait_policy,
            node_timeout,
            until,
            attempts: 0,
            report_holder,
            last_call: false,
        }
    }

    /// The first attempt: it is never cut short.
    pub(crate) fn first(&mut self) -> AskPlan {
        self.attempts = 1;
        self.ask(false, None)
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
            self.report_holder = match self.wait_policy {
                WaitPolicy::Wait {
                    give_up_when_held: false,
                    ..
                } => ReportHolder::AtAnchor,
                _ => ReportHolder::Everywhere,
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
        let ask = self.ask(split, self.until);
        Next::Attempt { at, ask }
    }

    fn ask(&self, anchor_first: bool, cut_at: Option<Duration>) -> AskPlan {
        AskPlan {
            anchor_first,
            report_holder: self.report_holder,
            cut_at,
        }
    }

    /// Whether no further attempt could change the answer.
    fn is_final(&self, verdict: &Verdict) -> bool {
        match (self.wait_policy, verdict) {
            (_, Verdict::Won | Verdict::Unavailable { denied: true }) => true,
            (WaitPolicy::Try, Verdict::Contended { holder, split }) => holder.is_some() || !split,
            (WaitPolicy::Try, Verdict::Vetoed) => false,
            (WaitPolicy::Try, Verdict::TooLate | Verdict::Unavailable { .. }) => true,
            (
                WaitPolicy::Wait {
                    give_up_when_held, ..
                },
                Verdict::Contended { holder, .. },
            ) => give_up_when_held && holder.is_some(),
            (
                WaitPolicy::Wait {
                    give_up_when_unavailable,
                    ..
                },
                Verdict::Unavailable { .. },
            ) => give_up_when_unavailable,
            (WaitPolicy::Wait { .. }, _) => false,
        }
    }

    fn pause(&self, chance: f64) -> Duration {
        match self.wait_policy {
            WaitPolicy::Wait { retry, .. } => retry.pause(self.attempts, chance),
            WaitPolicy::Try => {
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
