//! What comes of a run.

use std::time::Duration;

use super::coverage::Coverage;
use super::ledger::Violation;
use super::plan::Plan;

/// What came of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What it was.
    pub plan: Plan,
    /// The workload that ran.
    pub workload: &'static str,
    /// What happened how often.
    pub coverage: Coverage,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// The hash of all events.
    pub hash: u64,
    /// How much true time went by in it.
    pub simulated: Duration,
    /// Whether it stayed within the assumptions under which exclusion is promised.
    pub within_budget: bool,
    /// Whether a server forgot anything.
    pub forgot: bool,
    /// What happened, for people; empty unless a trace was kept.
    pub trace: Vec<String>,
}
