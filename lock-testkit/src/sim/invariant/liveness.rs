//! That the lock can be had again.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// Noticed while it goes on.
pub(super) struct Liveness;

impl Invariant for Liveness {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn about(&self) -> &'static str {
        "once faults have ended every client acquires every lock within a bound, and all work \
         comes to its end"
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
