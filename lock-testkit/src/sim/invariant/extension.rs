//! What extensions may do.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// Noticed while it goes on.
pub(super) struct Extension;

impl Invariant for Extension {
    fn name(&self) -> &'static str {
        "extension"
    }

    fn about(&self) -> &'static str {
        "an extension never revives a lock whose validity has ended, and never makes it end \
         sooner"
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
