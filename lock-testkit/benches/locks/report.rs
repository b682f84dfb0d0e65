//! What is printed: a table for people, or one JSON object a line.

use crate::args::Effort;

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Less is better.
    Micros,
    /// More is better.
    PairsPerSecond,
}

/// What came of one scenario.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) nodes: usize,
    pub(crate) ours: f64,
    pub(crate) raw: f64,
    /// Ours to raw. Where turns are compared one by one, not quite that of the two values.
    pub(crate) ratio: f64,
    pub(crate) unit: Unit,
    /// The client's own time on a core for each pair, against the healthy value.
    pub(crate) cpu: Option<f64>,
    /// What else a person may want to know.
    pub(crate) note: String,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Micros => "us",
            Self::PairsPerSecond => "pairs/s",
        }
    }
}

impl Row {
    /// What the ratio must be, in words, and whether it is.
    fn target(&self) -> (&'static str, bool) {
        let ratio = self.ratio;
        match self.unit {
            Unit::PairsPerSecond => (">= 0.85", ratio >= 0.85),
            Unit::Micros if self.scenario.contains("seq") => ("<= 1.15", ratio <= 1.15),
            Unit::Micros => {
                let is_met = |ratio: f64| ratio <= 1.1;
                ("<= 1.10", is_met(ratio) && self.cpu.is_none_or(is_met))
            }
        }
    }

    fn json(&self) -> String {
        let Self {
            scenario,
            nodes,
            ours,
            raw,
            ratio,
            ..
        } = self;
        let unit = self.unit.name();
        let cpu = self.cpu.map(|cpu| format!(r#","cpu":{cpu:.3}"#));
        let cpu = cpu.unwrap_or_default();
        format!(
            r#"{{"scenario":"{scenario}","nodes":{nodes},"ours":{ours:.1},"raw":{raw:.1},"unit":"{unit}","ratio":{ratio:.3}{cpu}}}"#
        )
    }
}

/// Prints rows as they come.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn start(&mut self, effort: &Effort) {
        if self.json {
            return;
        }
        println!("Acquire and release, ours against the raw limit; with failing servers, against");
        println!("our own healthy value, as is the client's CPU. Own redis-servers on loopback;");
        println!(
            "medians of {} rounds, with failing servers of {}. µs are the p50 of a pair, with the",
            effort.rounds, effort.failures
        );
        println!("client on a core of its own, with failing servers all on one; pairs/s with both");
        println!(
            "on all cores, of {} turns, and the ratio is the median of those of neighbouring turns.",
            effort.rounds * effort.turns
        );
        println!();
        println!(
            "{:13}{:>10}{:>10}  {:9}{:>5}  {:9}",
            "scenario", "ours", "raw", "unit", "ratio", "target"
        );
    }

    pub(crate) fn row(&mut self, row: &Row) {
        if self.json {
            println!("{}", row.json());
            return;
        }
        let (target, is_met) = row.target();
        println!(
            "{:13}{:>10.1}{:>10.1}  {:9}{:>5.2}  {:9}{:7}{}",
            row.scenario,
            row.ours,
            row.raw,
            row.unit.name(),
            row.ratio,
            target,
            if is_met { "" } else { "MISSED" },
            row.note,
        );
    }
}
