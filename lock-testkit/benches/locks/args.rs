//! The command line.

use std::time::Duration;

use crate::BenchResult;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) json: bool,
    pub(crate) effort: Effort,
    scenarios: Vec<String>,
}

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Effort {
    /// The result is the median of so many rounds.
    pub(crate) rounds: usize,
    /// How often the sides take turns in one round.
    pub(crate) turns: usize,
    /// How long one turn of one side is.
    pub(crate) turn: Duration,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 5,
        turns: 5,
        turn: Duration::from_millis(120),
    };
    const QUICK: Self = Self {
        rounds: 5,
        turns: 2,
        turn: Duration::from_millis(60),
    };

    /// How long each side is measured in one round.
    pub(crate) fn round(&self) -> Duration {
        self.turn * u32::try_from(self.turns).unwrap_or(u32::MAX)
    }
}

impl Args {
    /// `None` if this is no run of the benchmark.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> BenchResult<Option<Self>> {
        let mut args = Self {
            json: false,
            effort: Effort::FULL,
            scenarios: Vec::new(),
        };
        let mut is_bench = false;
        for word in words {
            match word.as_str() {
                "--bench" => is_bench = true,
                "--json" => args.json = true,
                "--quick" => args.effort = Effort::QUICK,
                _ if word.starts_with('-') => {
                    let known = "--json, --quick and names of scenarios";
                    return Err(format!("unknown argument {word}: there are {known}").into());
                }
                _ => args.scenarios.push(word),
            }
        }
        Ok(is_bench.then_some(args))
    }

    /// Whether the scenario is to be run: all are, unless some are named.
    pub(crate) fn wants(&self, scenario: &str) -> bool {
        let named = |name: &String| scenario.contains(name.as_str());
        self.scenarios.is_empty() || self.scenarios.iter().any(named)
    }
}
