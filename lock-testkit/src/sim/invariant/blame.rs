//! Contention and outages are told apart.

use super::Invariant;
use crate::sim::ledger::{AttemptFacts, CallFacts, CallResult, Ledger, NodeFacts, Violation, Vote};
use crate::sim::plan::Plan;

pub(super) struct Blame;

impl Invariant for Blame {
    fn name(&self) -> &'static str {
        "blame"
    }

    fn about(&self) -> &'static str {
        "contention is reported only if a quorum of nodes answered the attempt it stands for, an \
         outage only if none did, and each node is quoted with what it said"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        for call in &ledger.calls {
            let (reports, is_contention) = match &call.result {
                CallResult::Contended(reports) => (reports, true),
                CallResult::Unavailable(reports) => (reports, false),
                _ => continue,
            };
            let is_answer = |vote: &&Vote| matches!(vote, Vote::Granted | Vote::Refused);
            let answers = reports.iter().filter(is_answer).count();
            if !reports.is_empty() && is_contention != (answers >= plan.quorum) {
                violations.push(wrong(call, "its own list of nodes says otherwise"));
            }
            let attempts = ledger
                .attempts
                .iter()
                .filter(|attempt| is_of(attempt, call));
            let mut attempts = attempts.peekable();
            if attempts.peek().is_some()
                && !attempts.any(|attempt| bears_out(plan, attempt, call, reports, is_contention))
            {
                violations.push(wrong(call, "no attempt of the call was answered like that"));
            }
        }
    }
}

fn wrong(call: &CallFacts, why: &str) -> Violation {
    Violation {
        invariant: "blame",
        text: format!(
            "client {} at {:?}: {:?}, but {why}",
            call.client.index(),
            call.ended,
            call.result
        ),
    }
}

fn is_of(attempt: &AttemptFacts, call: &CallFacts) -> bool {
    attempt.client == call.client
        && call.keys.iter().any(|key| key == attempt.key())
        && (call.began..=call.ended).contains(&attempt.started)
}

/// Returns whether the nodes answered this attempt as the error says.
fn bears_out(
    plan: &Plan,
    attempt: &AttemptFacts,
    call: &CallFacts,
    reports: &[Vote],
    is_contention: bool,
) -> bool {
    let by_then = |node: &&NodeFacts| {
        matches!(node.vote, Vote::Granted | Vote::Refused) && node.voted_at <= call.ended
    };
    let answered = attempt.nodes.iter().filter(by_then).count();
    if reports.is_empty() {
        // `try_acquire` says no more than that the lock is taken. A node that was asked first may
        // have refused alone, after a round in which a quorum answered.
        return !is_contention || answered >= plan.quorum;
    }
    let quoted = reports.iter().zip(&attempt.nodes);
    quoted.into_iter().all(|(report, node)| match report {
        Vote::Granted | Vote::Refused => node.vote == *report,
        Vote::Failed | Vote::Nothing => true,
    })
}
