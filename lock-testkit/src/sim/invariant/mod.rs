//! What must hold, judged on true time. A file each.

mod belief;
mod blame;
mod bounds;
mod exclusion;
mod extension;
mod keeping;
mod leftovers;
mod lifetime;
mod liveness;
mod ticks;

use super::ledger::{Ledger, Violation};
use super::plan::Plan;

/// Something that must hold in every run.
///
/// Most are judged when a run is over, by what the [`Ledger`] remembers. Some are noticed while it
/// goes on, because nobody could tell afterwards; they are listed all the same.
pub trait Invariant: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What it says, in one sentence.
    fn about(&self) -> &'static str;

    /// Judges a run that is over.
    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>);
}

pub(crate) use exclusion::excused as excused_overlaps;

/// All invariants of this crate.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(exclusion::Exclusion),
        Box::new(belief::Belief),
        Box::new(keeping::Keeping),
        Box::new(leftovers::Leftovers),
        Box::new(lifetime::Lifetime),
        Box::new(liveness::Liveness),
        Box::new(extension::Extension),
        Box::new(blame::Blame),
        Box::new(ticks::Ticks),
        Box::new(bounds::Bounds),
    ]
}
