//! What is left behind.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

pub(super) struct Leftovers;

impl Invariant for Leftovers {
    fn name(&self) -> &'static str {
        "leftovers"
    }

    fn about(&self) -> &'static str {
        "soon after faults and work have ended no key is left, save those that were to be kept, \
         whose owner died, or that nobody can know of"
    }

    fn judge(&self, _plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        for leftover in &ledger.leftovers {
            let token = leftover.token.map(|token| token.to_string());
            violations.push(Violation {
                invariant: "leftovers",
                text: format!(
                    "node {} still has {} of {} for {:?}",
                    leftover.server.index(),
                    String::from_utf8_lossy(&leftover.key),
                    token.unwrap_or_default(),
                    leftover.left,
                ),
            });
        }
    }
}
