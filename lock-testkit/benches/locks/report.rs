//! What is printed: a table for people, or one JSON object a line.

use std::fmt;

use crate::args::Effort;

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Less is better.
    Micros,
    /// More is better.
    PairsPerSecond,
}

/// The client's own time on a core for each pair, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) ours: f64,
    pub(crate) raw: f64,
}

impl Cpu {
    fn ratio(self) -> f64 {
        self.ours / self.raw
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, raw } = self;
        write!(f, "the client's CPU {ours:.1} / {raw:.1} µs")
    }
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
    pub(crate) cpu: Option<Cpu>,
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
            Unit::PairsPerSecond if self.scenario.starts_with("current") => {
                (">= 0.70", ratio >= 0.70)
            }
            Unit::PairsPerSecond => (">= 0.85", ratio >= 0.85),
            Unit::Micros if self.scenario.contains("seq") => ("<= 1.15", ratio <= 1.15),
            Unit::Micros => {
                let is_met = |ratio: f64| ratio <= 1.1;
                (
                    "<= 1.10",
                    is_met(ratio) && self.cpu.map(Cpu::ratio).is_none_or(is_met),
                )
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
        let cpu = self.cpu.map(|cpu| {
            let Cpu { ours, raw } = cpu;
            let ratio = cpu.ratio();
            format!(r#","cpu":{ratio:.3},"cpu_us":{{"ours":{ours:.2},"raw":{raw:.2}}}"#)
        });
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
        println!(
            "Acquire and release, ours against the raw limit; with fencing tokens, against our own"
        );
        println!(
            "lock without them; with failing servers, against our own healthy value, as is the"
        );
        println!("client's CPU. Own redis-servers on loopback;");
        println!(
            "medians of {} rounds, with failing servers of {}. µs are the p50 of a pair, with the",
            effort.rounds, effort.failures
        );
        println!("client on a core of its own, with failing servers all on one; pairs/s with both");
        println!(
            "on all cores, of {} turns, and the ratio is the median of those of neighbouring turns.",
            effort.rounds * effort.turns
        );
        println!("current: a process for each side, with one client on a current-thread runtime.");
        println!();
        println!(
            "{:18}{:>10}{:>10}  {:9}{:>5}  {:9}",
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
            "{:18}{:>10.1}{:>10.1}  {:9}{:>5.2}  {:9}{:7}{}",
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
