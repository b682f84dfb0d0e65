//! Runs of many seeds.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::coverage::{Coverage, Mark};
use super::outcome::Outcome;
use super::plan::Plan;
use super::scenario::Scenario;

/// Runs many seeds on several threads, each seed on one of them.
#[derive(Debug)]
pub struct Campaign<'s> {
    scenario: &'s Scenario,
    threads: usize,
    stop_after: usize,
}

/// The sum of many runs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// The number of runs.
    pub runs: u64,
    /// How many of them stayed within the assumptions under which exclusion is promised.
    pub within_budget: u64,
    /// How many of them had servers that forgot keys, and stayed within nevertheless.
    pub forgetful_within_budget: u64,
    /// How much true time passed in them.
    pub simulated: Duration,
    /// What happened, and how often.
    pub coverage: Coverage,
    /// The runs in which an invariant did not hold, in the order of their seeds.
    pub failures: Vec<Outcome>,
}

impl<'s> Campaign<'s> {
    /// Makes a campaign on one thread that stops at the tenth failure.
    #[must_use]
    pub fn new(scenario: &'s Scenario) -> Self {
        Self {
            scenario,
            threads: 1,
            stop_after: 10,
        }
    }

    /// Sets the number of threads. At least one is used.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets after how many failed runs the campaign stops. At least one.
    #[must_use]
    pub fn stop_after(mut self, failures: usize) -> Self {
        self.stop_after = failures.max(1);
        self
    }

    /// Runs the seeds, each with the plan that `plan` makes of it. Calls `done` now and then with
    /// the number of seeds that have been run.
    pub fn run(
        &self,
        seeds: Range<u64>,
        plan: impl Fn(u64) -> Plan + Sync,
        done: impl Fn(u64) + Sync,
    ) -> Tally {
        let next = AtomicU64::new(seeds.start);
        let is_over = AtomicBool::new(false);
        let work = || {
            let mut tally = Tally::default();
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    break;
                }
                tally.add(self.scenario.run(plan(seed)));
                if tally.failures.len() >= self.stop_after {
                    is_over.store(true, Ordering::Relaxed);
                }
                if (seed + 1).is_multiple_of(1000) {
                    done(seed + 1 - seeds.start);
                }
            }
            tally
        };
        let mut whole = Tally::default();
        thread::scope(|scope| {
            let threads = (0..self.threads).map(|_| scope.spawn(work));
            for thread in threads.collect::<Vec<_>>() {
                match thread.join() {
                    Ok(tally) => whole.merge(tally),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        whole.failures.sort_by_key(|outcome| outcome.plan.seed);
        whole
    }
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.within_budget += u64::from(outcome.within_budget);
        self.forgetful_within_budget += u64::from(outcome.within_budget && outcome.forgot);
        self.simulated += outcome.simulated;
        self.coverage.merge(&outcome.coverage);
        if !outcome.violations.is_empty() {
            self.failures.push(outcome);
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.within_budget += other.within_budget;
        self.forgetful_within_budget += other.forgetful_within_budget;
        self.simulated += other.simulated;
        self.coverage.merge(&other.coverage);
        self.failures.extend(other.failures);
    }

    /// Returns what has to happen in a campaign of this length and did not.
    #[must_use]
    pub fn never_happened(&self) -> Vec<Mark> {
        let marks = Mark::ALL.iter().copied();
        marks
            .filter(|mark| mark.must_happen_in(self.runs) && self.coverage.count(*mark) == 0)
            .collect()
    }
}
