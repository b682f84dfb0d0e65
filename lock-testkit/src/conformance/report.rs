//! All outcomes of a suite.

use std::collections::BTreeMap;
use std::fmt;

use super::rule::Rule;
use super::run::Outcome;

/// The outcomes of all checks of a suite. It displays as a table of rules.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Report {
    outcomes: Vec<Outcome>,
    unknown: Vec<String>,
}

impl Report {
    pub(crate) fn new(outcomes: Vec<Outcome>, unknown: Vec<String>) -> Self {
        Self { outcomes, unknown }
    }

    /// The outcomes, in the order of the suite.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Names that were declared unsupported and are not checks.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns whether every check passed, or failed as declared, and every name that was declared
    /// unsupported exists.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.unknown.is_empty() && self.outcomes.iter().all(Outcome::is_good)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rules = BTreeMap::<Rule, Vec<&Outcome>>::new();
        for outcome in &self.outcomes {
            rules.entry(outcome.check.rule).or_default().push(outcome);
        }
        writeln!(f, "rule  passed  failed  unsupported")?;
        for (rule, outcomes) in &rules {
            let count =
                |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
            let passed = count(|o| o.is_good() && o.unsupported.is_none());
            let failed = count(|o| !o.is_good());
            let unsupported = count(|o| o.is_good() && o.unsupported.is_some());
            writeln!(
                f,
                "{:<5} {passed:>6}  {failed:>6}  {unsupported:>11}  {}",
                rule.to_string(),
                rule.text()
            )?;
        }
        for outcome in self.outcomes.iter().filter(|outcome| !outcome.is_good()) {
            writeln!(f, "\n{outcome}")?;
        }
        for name in &self.unknown {
            writeln!(
                f,
                "\n`{name}` is declared unsupported, and there is no such check"
            )?;
        }
        for outcome in &self.outcomes {
            if let (true, Some(reason)) = (outcome.is_good(), &outcome.unsupported) {
                writeln!(f, "\nunsupported: {}: {reason}", outcome.check.name)?;
            }
        }
        Ok(())
    }
}
