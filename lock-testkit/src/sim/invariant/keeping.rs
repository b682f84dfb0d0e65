//! Locks that stay taken.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// Noticed while it goes on.
pub(super) struct Keeping;

impl Invariant for Keeping {
    fn name(&self) -> &'static str {
        "keeping"
    }

    fn about(&self) -> &'static str {
        "a lock that is to be held for a while at least stays on a quorum of nodes for so long, \
         released or not"
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
