//! Parts that both suites have in common.

use super::failure::{CheckResult, Failure};
use super::report::Report;
use super::run::{CheckInfo, Outcome};

/// Runs checks one after the other.
pub(crate) fn run_all<C>(
    checks: impl Iterator<Item = (CheckInfo, C)>,
    unsupported: &[(&str, &str)],
    run: impl Fn(C) -> CheckResult,
) -> Report {
    let mut unknown = unsupported.to_vec();
    let mut outcomes = Vec::new();
    for (info, check) in checks {
        let reason = unsupported.iter().find(|(name, _)| *name == info.name);
        unknown.retain(|(name, _)| *name != info.name);
        let result = match reason {
            Some((_, reason)) if info.required => Err(Failure::new(
                "a required check not to be declared unsupported",
                format!("the reason {reason:?}"),
            )),
            _ => run(check),
        };
        let reason = reason.filter(|_| !info.required);
        let reason = reason.map(|(_, reason)| (*reason).to_owned());
        outcomes.push(Outcome::new(info, result, reason));
    }
    Report::new(
        outcomes,
        unknown.iter().map(|(name, _)| (*name).to_owned()).collect(),
    )
}

/// Fails to compile unless the name is that of a check that may be declared unsupported.
#[doc(hidden)]
pub const fn declare_unsupported(
    checks: &[(&str, bool)],
    name: &str,
    unknown: &str,
    required: &str,
) {
    let mut i = 0;
    while i < checks.len() {
        if is_equal(checks[i].0, name) {
            assert!(!checks[i].1, "{}", required);
            return;
        }
        i += 1;
    }
    panic!("{}", unknown);
}

const fn is_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// A test that a macro made of a check.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct TestCase {
    /// The module of the test, by `module_path!`.
    pub module: &'static str,
    /// The name of the test and the check.
    pub name: &'static str,
    /// Why the check is declared unsupported, if it is.
    pub unsupported: Option<&'static str>,
}

/// Returns whether the word before a check in a list says that it is required.
macro_rules! is_required {
    (required) => {
        true
    };
    (optional) => {
        false
    };
    (of_nodes) => {
        false
    };
}
pub(crate) use is_required;
