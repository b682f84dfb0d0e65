//! [`Outcome`]: the result of a run.

use std::time::Duration;

use super::coverage::Coverage;
use super::ledger::Violation;
use super::plan::Plan;

/// The result of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The plan that was run.
    pub plan: Plan,
    /// The workload that ran.
    pub workload: &'static str,
    /// What happened, and how often.
    pub coverage: Coverage,
    /// The invariants that did not hold.
    pub violations: Vec<Violation>,
    /// The hash of all events.
    pub hash: u64,
    /// How much true time passed in it.
    pub simulated: Duration,
    /// Whether it stayed within the assumptions under which exclusion is promised.
    pub within_budget: bool,
    /// Whether a server forgot keys.
    pub forgot: bool,
    /// What happened, line by line; empty unless the scenario is [traced](super::Scenario::traced).
    pub trace: Vec<String>,
}
