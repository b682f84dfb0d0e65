//! Who ran what, and whether that is right.

use std::fmt;
use std::time::{Duration, SystemTime};

use lock_core::tick::Tick;

use crate::plan::{Plan, Schedule};
use crate::report::{Attempt, Report};

/// Everything the instances have reported.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    plan: Plan,
    rows: Vec<Row>,
    /// For each instance, how many ticks it has dealt with.
    dealt_with: Vec<u64>,
    shown: u64,
}

/// What became of one tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) tick: Tick,
    /// Each run: the instance, and how many milliseconds after the tick it began.
    pub(crate) runs: Vec<(usize, i64)>,
    pub(crate) taken: usize,
    pub(crate) too_late: usize,
    /// Why instances could not decide.
    pub(crate) unavailable: Vec<(usize, String)>,
}

/// The counts that matter. `runs = ticks + duplicates - missed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    ticks: u64,
    runs: u64,
    /// Runs beyond the first of a tick.
    duplicates: u64,
    /// Ticks without a run.
    missed: u64,
}

impl Scoreboard {
    pub(crate) fn new(plan: &Plan, instances: usize) -> Self {
        let row = |tick: &Tick| Row {
            tick: *tick,
            runs: Vec::new(),
            taken: 0,
            too_late: 0,
            unavailable: Vec::new(),
        };
        Self {
            rows: plan.ticks.iter().map(row).collect(),
            plan: plan.clone(),
            dealt_with: vec![0; instances],
            shown: 0,
        }
    }

    fn ticks(&self) -> u64 {
        self.rows.len() as u64
    }

    /// When the last tick should be over.
    pub(crate) fn end(&self) -> SystemTime {
        let takes = match self.plan.schedule {
            Schedule::Every(period) => period,
            // An instance that starts late runs it late.
            Schedule::Cron(_) => Duration::from_secs(10),
        };
        let end = self.plan.last().system_time();
        let end = end.and_then(|end| end.checked_add(takes));
        end.unwrap_or_else(SystemTime::now)
    }

    pub(crate) fn record(&mut self, instance: usize, report: Report) {
        let index = self.rows.iter().position(|row| row.tick == report.tick);
        let Some((index, row)) = index.and_then(|index| Some((index, self.rows.get_mut(index)?)))
        else {
            return;
        };
        match report.attempt {
            Attempt::Ran { late_ms } => row.runs.push((instance, late_ms)),
            Attempt::Taken => row.taken += 1,
            Attempt::TooLate => row.too_late += 1,
            Attempt::Unavailable(cause) => row.unavailable.push((instance, cause)),
        }
        self.advance(instance, index as u64 + 1);
    }

    /// An instance reports nothing any more.
    pub(crate) fn end_of(&mut self, instance: usize) {
        self.advance(instance, self.ticks());
    }

    /// Instances report in the order of the ticks, so one that reports a tick is through with all
    /// earlier ones.
    fn advance(&mut self, instance: usize, count: u64) {
        if let Some(dealt_with) = self.dealt_with.get_mut(instance - 1) {
            *dealt_with = count.max(*dealt_with);
        }
    }

    /// The ticks that all instances are through with by now, each of them once.
    pub(crate) fn settled(&mut self) -> Vec<Row> {
        let settled = self.dealt_with.iter().copied().min();
        self.show_until(settled.unwrap_or_default())
    }

    /// The ticks that were not shown yet.
    pub(crate) fn all_the_rest(&mut self) -> Vec<Row> {
        self.show_until(self.ticks())
    }

    fn show_until(&mut self, end: u64) -> Vec<Row> {
        let from = self.shown;
        self.shown = end.max(from);
        let rows = self.rows.iter().skip(from as usize);
        rows.take((self.shown - from) as usize).cloned().collect()
    }

    /// How many ticks were shown.
    pub(crate) fn progress(&self) -> u64 {
        self.shown
    }

    pub(crate) fn summary(&self) -> Summary {
        let runs = |row: &Row| row.runs.len() as u64;
        Summary {
            ticks: self.ticks(),
            runs: self.rows.iter().map(runs).sum(),
            duplicates: self
                .rows
                .iter()
                .map(|row| runs(row).saturating_sub(1))
                .sum(),
            missed: self.rows.iter().filter(|row| row.runs.is_empty()).count() as u64,
        }
    }
}

impl Summary {
    pub(crate) fn each_tick_ran_once(&self) -> bool {
        self.duplicates == 0 && self.missed == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ticks,
            runs,
            duplicates,
            missed,
        } = self;
        write!(
            f,
            "{ticks} ticks, {runs} runs, {duplicates} duplicates, {missed} missed"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    const RAN: Attempt = Attempt::Ran { late_ms: 1 };

    fn board() -> Scoreboard {
        let words = ["cron", "--ticks", "3"].map(Into::into);
        let args = args::parse(words).unwrap().unwrap();
        let plan = Plan::new("job", Tick::from_millis(6_999), &args).unwrap();
        Scoreboard::new(&plan, 2)
    }

    fn record(board: &mut Scoreboard, instance: usize, tick: u64, attempt: Attempt) {
        let tick = Tick::from_millis(tick);
        board.record(instance, Report { tick, attempt });
    }

    #[test]
    fn each_tick_run_once_is_a_success() {
        let mut board = board();
        for tick in [7_000, 8_000, 9_000] {
            record(&mut board, 1, tick, RAN);
            record(&mut board, 2, tick, Attempt::Taken);
        }
        let summary = board.summary();
        assert_eq!(
            summary.to_string(),
            "3 ticks, 3 runs, 0 duplicates, 0 missed"
        );
        assert!(summary.each_tick_ran_once());
    }

    #[test]
    fn a_second_run_and_a_missing_one_do_not_make_up_for_each_other() {
        let mut board = board();
        record(&mut board, 1, 7_000, RAN);
        record(&mut board, 2, 7_000, RAN);
        record(&mut board, 1, 8_000, Attempt::Unavailable("down".into()));
        record(&mut board, 1, 9_000, RAN);
        let summary = board.summary();
        assert_eq!(
            summary.to_string(),
            "3 ticks, 3 runs, 1 duplicates, 1 missed"
        );
        assert!(!summary.each_tick_ran_once());
    }

    #[test]
    fn a_tick_is_shown_once_and_not_before_every_instance_is_through_with_it() {
        let mut board = board();
        let ticks = |rows: Vec<Row>| {
            rows.iter()
                .map(|row| row.tick.as_millis())
                .collect::<Vec<_>>()
        };
        record(&mut board, 1, 7_000, RAN);
        assert_eq!(ticks(board.settled()), []);
        record(&mut board, 2, 8_000, RAN);
        assert_eq!(ticks(board.settled()), [7_000]);
        board.end_of(1);
        assert_eq!(ticks(board.settled()), [8_000]);
        assert_eq!((ticks(board.settled()), board.progress()), (vec![], 2));
        assert_eq!(ticks(board.all_the_rest()), [9_000]);
    }
}
