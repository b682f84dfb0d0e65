//! How long keys live.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// Noticed while it goes on.
pub(super) struct Lifetime;

impl Invariant for Lifetime {
    fn name(&self) -> &'static str {
        "lifetime"
    }

    fn about(&self) -> &'static str {
        "no key lives longer than its ttl after the last command that set or extended it, and none \
         lives for ever"
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
