//! The command line of a benchmark.

use std::error::Error;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Args<E> {
    pub(crate) json: bool,
    pub(crate) effort: E,
    scenarios: Vec<String>,
}

impl<E> Args<E> {
    /// `None` if this is no run of the benchmark.
    pub(crate) fn parse(
        words: impl Iterator<Item = String>,
        full: E,
        quick: E,
    ) -> Result<Option<Self>, Box<dyn Error + Send + Sync>> {
        let (mut is_bench, mut is_quick, mut json) = (false, false, false);
        let mut scenarios = Vec::new();
        for word in words {
            match word.as_str() {
                "--bench" => is_bench = true,
                "--json" => json = true,
                "--quick" => is_quick = true,
                _ if word.starts_with('-') => {
                    let known = "--json, --quick and names of scenarios";
                    return Err(format!("unknown argument {word}: there are {known}").into());
                }
                _ => scenarios.push(word),
            }
        }
        Ok(is_bench.then_some(Self {
            json,
            effort: if is_quick { quick } else { full },
            scenarios,
        }))
    }

    /// Whether the scenario is to be run: all are, unless some are named.
    pub(crate) fn wants(&self, scenario: &str) -> bool {
        let named = |name: &String| scenario.contains(name.as_str());
        self.scenarios.is_empty() || self.scenarios.iter().any(named)
    }
}
