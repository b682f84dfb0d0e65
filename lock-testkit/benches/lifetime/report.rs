//! What is printed: a table for people, or one JSON object a line.

use std::time::Duration;

use crate::{LOCKS, NODES, TTL, WORKERS};

/// What is measured. Less is better everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scenario {
    Memory,
    Cpu,
    Requests,
}

/// What came of one scenario.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    pub(crate) ours: f64,
    pub(crate) raw: f64,
    /// What else a person may want to know.
    pub(crate) note: String,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "bytes/lock",
            Self::Cpu => "cpu",
            Self::Requests => "requests",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Memory => "bytes",
            Self::Cpu => "cores",
            Self::Requests => "requests",
        }
    }

    /// The ratio that is too much, and the target in words.
    fn limit(self) -> (f64, &'static str) {
        match self {
            Self::Memory => (1.0, "< 2048"),
            Self::Cpu => (1.0, "< 0.2"),
            Self::Requests => (0.1, "<= 0.10 x"),
        }
    }
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.raw
    }

    fn json(&self) -> String {
        let Self {
            scenario,
            ours,
            raw,
            ..
        } = self;
        let (name, unit, ratio) = (scenario.name(), scenario.unit(), self.ratio());
        format!(
            r#"{{"scenario":"{name}","nodes":{NODES},"ours":{ours:.4},"raw":{raw:.1},"unit":"{unit}","ratio":{ratio:.4}}}"#
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

    pub(crate) fn start(&self, hold: Duration) {
        if self.json {
            return;
        }
        println!("{LOCKS} locks with a ttl of {TTL:?}, extended automatically, on {NODES} own");
        println!("redis-servers on loopback, held for {hold:?}; tokio's multi-thread runtime,");
        println!("{WORKERS} workers. raw is the most that is allowed; for requests, one command");
        println!("for each extension of each lock at each node.");
        println!();
        println!(
            "{:11}{:>11}{:>11}  {:9}{:>8}  {:10}",
            "scenario", "ours", "raw", "unit", "ratio", "target"
        );
    }

    pub(crate) fn row(&self, row: &Row) {
        if self.json {
            println!("{}", row.json());
            return;
        }
        let (limit, target) = row.scenario.limit();
        println!(
            "{:11}{:>11.3}{:>11.1}  {:9}{:>8.4}  {:10}{:7}{}",
            row.scenario.name(),
            row.ours,
            row.raw,
            row.scenario.unit(),
            row.ratio(),
            target,
            if row.ratio() < limit { "" } else { "MISSED" },
            row.note,
        );
    }
}
