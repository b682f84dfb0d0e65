//! Makes a failure simpler.

use super::fault::FaultKind;
use super::outcome::Outcome;
use super::plan::Plan;
use super::scenario::Scenario;

/// Leaves out one kind of fault after the other, as long as the run fails by the same invariant.
/// Returns the failing run with the fewest kinds.
#[must_use]
pub fn shrink(scenario: &Scenario, failure: Outcome) -> Outcome {
    let invariants = |outcome: &Outcome| {
        let violations = outcome.violations.iter();
        violations
            .map(|violation| violation.invariant)
            .collect::<Vec<_>>()
    };
    let wanted = invariants(&failure);
    let mut simplest = failure;
    let kinds: Vec<FaultKind> = simplest.plan.faults.clone();
    for kind in kinds {
        let plan: Plan = simplest.plan.clone().without(&[kind]);
        let outcome = scenario.run(plan);
        if invariants(&outcome)
            .iter()
            .any(|found| wanted.contains(found))
        {
            simplest = outcome;
        }
    }
    simplest
}
