//! What must hold, judged on true time.

mod blame;
mod bounds;
mod exclusion;
mod fencing;
mod leftovers;
mod noticed;
mod ticks;

use super::ledger::{Ledger, Violation};
use super::plan::Plan;

/// A property that must hold in every run.
///
/// Most are judged when a run is over, by its [`Ledger`]. Some are judged as the run goes on, since
/// that could not be told afterwards; they are listed all the same.
pub trait Invariant: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns what it says, in one sentence.
    fn about(&self) -> &'static str;

    /// Judges a run that is over.
    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>);
}

pub(crate) use exclusion::excused as excused_overlaps;

/// Returns all invariants of this crate.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    let mut all: Vec<Box<dyn Invariant>> = vec![
        Box::new(exclusion::Exclusion),
        Box::new(leftovers::Leftovers),
        Box::new(blame::Blame),
        Box::new(ticks::Ticks),
        Box::new(bounds::Bounds),
        Box::new(fencing::Fencing),
        Box::new(fencing::Register),
    ];
    for noticed in &noticed::NOTICED {
        all.push(Box::new(noticed));
    }
    all
}
