//! Who ran what, and whether each instant was run once.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use lock_core::tick::{Tick, TickOutcome};
use tokio::sync::mpsc;

pub(crate) type Reporter = mpsc::UnboundedSender<Report>;
pub(crate) type Reports = mpsc::UnboundedReceiver<Report>;

/// What came of an instant on one instance.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    instance: usize,
    tick: Tick,
    outcome: Outcome,
}

#[derive(Clone, Debug)]
enum Outcome {
    Ran { late_ms: u128 },
    Claimed,
    NotRun(String),
}

impl Report {
    pub(crate) fn new(instance: usize, tick: Tick, outcome: TickOutcome<u128>) -> Self {
        let outcome = match outcome {
            TickOutcome::Ran(late_ms) => Outcome::Ran { late_ms },
            TickOutcome::AlreadyClaimed => Outcome::Claimed,
            TickOutcome::TooLate => Outcome::NotRun("it came too late".to_owned()),
            TickOutcome::Unavailable(cause) => Outcome::NotRun(cause.to_string()),
            TickOutcome::Overlaps => Outcome::NotRun("an earlier run went on".to_owned()),
            TickOutcome::Stopped(loss) => Outcome::NotRun(loss.to_string()),
        };
        Self {
            instance,
            tick,
            outcome,
        }
    }
}

/// All instants that are to be run, and what was reported of each.
#[derive(Debug)]
pub(crate) struct Ledger {
    instances: usize,
    pages: BTreeMap<Tick, Vec<Report>>,
    last: Tick,
    /// How many instants were shown.
    shown: usize,
}

/// What became of an instant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Once {
        instance: usize,
        late_ms: u128,
    },
    /// Nobody ran it here, and somebody has claimed it: another process with the same nodes.
    Elsewhere,
    Twice(Vec<usize>),
    Missed(String),
}

impl Ledger {
    pub(crate) fn new(ticks: &[Tick], instances: usize) -> Self {
        Self {
            instances,
            pages: ticks.iter().map(|tick| (*tick, Vec::new())).collect(),
            last: ticks.iter().max().copied().unwrap_or(Tick::from_millis(0)),
            shown: 0,
        }
    }

    pub(crate) fn last(&self) -> Tick {
        self.last
    }

    /// Takes a report. Instants before the first one and after the last one are nobody's business.
    pub(crate) fn record(&mut self, report: Report) {
        if let Some(page) = self.pages.get_mut(&report.tick) {
            page.push(report);
        }
    }

    /// Whether every instance has dealt with every instant.
    pub(crate) fn is_complete(&self) -> bool {
        self.pages.values().all(|page| self.is_full(page))
    }

    fn is_full(&self, page: &[Report]) -> bool {
        let dealt_with = |instance| page.iter().any(|report| report.instance == instance);
        (1..=self.instances).all(dealt_with)
    }

    /// A line for each instant that every instance has dealt with and that was not shown yet.
    pub(crate) fn settled(&mut self) -> Vec<String> {
        let unseen = self.pages.iter().skip(self.shown);
        let settled = unseen.take_while(|(_, page)| self.is_full(page));
        let lines = settled.map(|(tick, page)| line(*tick, page));
        let lines = lines.collect::<Vec<_>>();
        self.shown += lines.len();
        lines
    }

    /// A line for each instant that was not shown yet.
    pub(crate) fn the_rest(&mut self) -> Vec<String> {
        let rest = self.pages.iter().skip(self.shown);
        let lines = rest.map(|(tick, page)| line(*tick, page)).collect();
        self.shown = self.pages.len();
        lines
    }

    pub(crate) fn each_ran_once(&self) -> bool {
        let once = |page| matches!(fate(page), Fate::Once { .. } | Fate::Elsewhere);
        self.pages.values().all(|page| once(page))
    }
}

fn fate(page: &[Report]) -> Fate {
    let ran = page.iter().filter_map(|report| match report.outcome {
        Outcome::Ran { late_ms } => Some((report.instance, late_ms)),
        _ => None,
    });
    let claimed = |report: &Report| matches!(report.outcome, Outcome::Claimed);
    match ran.collect::<Vec<_>>().as_slice() {
        [(instance, late_ms)] => Fate::Once {
            instance: *instance,
            late_ms: *late_ms,
        },
        [] if page.iter().any(claimed) => Fate::Elsewhere,
        [] => Fate::Missed(why_missed(page)),
        twice => Fate::Twice(twice.iter().map(|(instance, _)| *instance).collect()),
    }
}

/// The first cause; the others are alike.
fn why_missed(page: &[Report]) -> String {
    let cause = page.iter().find_map(|report| match &report.outcome {
        Outcome::NotRun(cause) => Some(format!("instance {}: {cause}", report.instance)),
        _ => None,
    });
    cause.unwrap_or_else(|| "no instance tried".to_owned())
}

fn line(tick: Tick, page: &[Report]) -> String {
    let time = tick.system_time().map(DateTime::<Utc>::from);
    let time = time.map(|time| time.format("%H:%M:%S UTC").to_string());
    let time = time.unwrap_or_else(|| tick.to_string());
    match fate(page) {
        Fate::Once { instance, late_ms } => {
            format!("{time}  run by instance {instance}, {late_ms} ms late")
        }
        Fate::Elsewhere => format!("{time}  run by another process"),
        Fate::Twice(instances) => format!("{time}  RUN TWICE, by instances {instances:?}"),
        Fate::Missed(why) => format!("{time}  MISSED: {why}"),
    }
}

/// The sum of it all.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut once, mut elsewhere, mut duplicates, mut missed) = (0, 0, 0, 0);
        for page in self.pages.values() {
            match fate(page) {
                Fate::Once { .. } => once += 1,
                Fate::Elsewhere => elsewhere += 1,
                Fate::Twice(instances) => duplicates += instances.len() - 1,
                Fate::Missed(_) => missed += 1,
            }
        }
        write!(f, "{} instants, {once} run here once, ", self.pages.len())?;
        write!(
            f,
            "{elsewhere} elsewhere, {duplicates} duplicates, {missed} missed"
        )
    }
}

#[cfg(test)]
mod tests {
    use lock_core::AcquireError;

    use super::*;

    const TICKS: [Tick; 2] = [Tick::from_millis(7_000), Tick::from_millis(8_000)];

    fn record(ledger: &mut Ledger, instance: usize, tick: Tick, outcome: TickOutcome<u128>) {
        ledger.record(Report::new(instance, tick, outcome));
    }

    #[test]
    fn each_instant_run_once_is_a_success() {
        let mut ledger = Ledger::new(&TICKS, 2);
        for tick in TICKS {
            record(&mut ledger, 1, tick, TickOutcome::AlreadyClaimed);
            record(&mut ledger, 2, tick, TickOutcome::Ran(5));
        }
        assert!(ledger.is_complete() && ledger.each_ran_once());
        let line = "00:00:07 UTC  run by instance 2, 5 ms late";
        assert_eq!(ledger.settled()[0], line);
        let sum = "2 instants, 2 run here once, 0 elsewhere, 0 duplicates, 0 missed";
        assert_eq!(ledger.to_string(), sum);
    }

    #[test]
    fn a_duplicate_and_a_miss_do_not_make_up_for_each_other() {
        let mut ledger = Ledger::new(&TICKS, 2);
        record(&mut ledger, 1, TICKS[0], TickOutcome::Ran(5));
        record(&mut ledger, 2, TICKS[0], TickOutcome::Ran(5));
        let outage = AcquireError::Unavailable(Default::default());
        record(&mut ledger, 1, TICKS[1], TickOutcome::Unavailable(outage));
        record(&mut ledger, 2, TICKS[1], TickOutcome::TooLate);
        assert!(ledger.is_complete() && !ledger.each_ran_once());
        let sum = "2 instants, 0 run here once, 0 elsewhere, 1 duplicates, 1 missed";
        assert_eq!(ledger.to_string(), sum);
        let [first, second] = ledger.settled().try_into().unwrap();
        assert!(first.ends_with("RUN TWICE, by instances [1, 2]"), "{first}");
        assert!(
            second.contains("MISSED: instance 1: too few nodes"),
            "{second}"
        );
    }

    #[test]
    fn an_instant_that_all_find_claimed_was_run_elsewhere() {
        let mut ledger = Ledger::new(&TICKS[..1], 2);
        for instance in [1, 2] {
            record(&mut ledger, instance, TICKS[0], TickOutcome::AlreadyClaimed);
        }
        assert!(ledger.is_complete() && ledger.each_ran_once());
    }

    #[test]
    fn an_instant_is_shown_once_and_when_all_have_dealt_with_it() {
        let mut ledger = Ledger::new(&TICKS, 2);
        record(&mut ledger, 1, TICKS[0], TickOutcome::Ran(5));
        record(
            &mut ledger,
            1,
            Tick::from_millis(6_000),
            TickOutcome::Ran(5),
        );
        assert!(ledger.settled().is_empty() && !ledger.is_complete());
        record(&mut ledger, 2, TICKS[0], TickOutcome::AlreadyClaimed);
        assert_eq!(ledger.settled().len(), 1);
        assert!(ledger.settled().is_empty());
        let rest = ledger.the_rest();
        assert_eq!(rest, ["00:00:08 UTC  MISSED: no instance tried"]);
        assert!(ledger.the_rest().is_empty() && !ledger.each_ran_once());
    }
}
