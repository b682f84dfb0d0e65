//! What holders believe.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// Noticed while it goes on.
pub(super) struct Belief;

impl Invariant for Belief {
    fn name(&self) -> &'static str {
        "belief"
    }

    fn about(&self) -> &'static str {
        "to the last moment of a guard's validity a quorum of nodes holds its key, save those \
         that forgot it"
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
