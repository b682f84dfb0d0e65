//! Nothing grows without bounds.

use super::Invariant;
use crate::sim::coverage::Mark;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

pub(super) struct Bounds;

/// The most commands that one attempt may cost one node: an acquire and its script's source, two
/// releases likewise, and what an extension and a release owed may come to.
const COMMANDS_PER_ATTEMPT: u16 = 64;

impl Invariant for Bounds {
    fn name(&self) -> &'static str {
        "bounds"
    }

    fn about(&self) -> &'static str {
        "attempts, commands, tasks, connections and calls in flight stay within bounds, and a node \
         that does not answer is asked by one acquire at a time"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        let mut wrong = |text: String| {
            violations.push(Violation {
                invariant: "bounds",
                text,
            });
        };
        for attempt in &ledger.attempts {
            for (number, node) in attempt.nodes.iter().enumerate() {
                if node.asked > COMMANDS_PER_ATTEMPT {
                    wrong(format!(
                        "{} acquires of one attempt at node {number}",
                        node.asked
                    ));
                }
            }
        }
        let acquired = ledger.coverage.count(Mark::Acquired);
        if ledger.peak_in_flight > plan.most_at_once() {
            wrong(format!(
                "{} calls in flight at once to one node",
                ledger.peak_in_flight
            ));
        }
        if ledger.peak_tasks > plan.most_at_once() {
            wrong(format!(
                "{} tasks of one client, {acquired} locks",
                ledger.peak_tasks
            ));
        }
    }
}
