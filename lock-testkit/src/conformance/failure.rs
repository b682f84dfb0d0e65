//! Why a check failed.

use std::error::Error;
use std::fmt;

/// The result of a check.
pub type CheckResult<T = ()> = Result<T, Failure>;

/// Why a check failed: what it expected and what it found.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: FailureKind,
    expected: String,
    found: String,
}

/// What a [`Failure`] says about the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The rule is broken.
    Broken,
    /// The harness cannot do what the check needs.
    Unsupported,
    /// The check could not be carried out, for instance because the server could not be started. This
    /// says nothing about the rule.
    Setup,
}

impl Failure {
    /// Makes a failure of a broken rule: what was expected, and what was found.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Broken,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Makes a failure of a harness that cannot do `what`. A check that fails like this belongs under
    /// `unsupported`, with a reason.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self {
            kind: FailureKind::Unsupported,
            expected: format!("a harness that can {what}"),
            found: "this one cannot".to_owned(),
        }
    }

    /// Makes a failure of a check that could not be carried out.
    pub fn setup(what: impl fmt::Display, error: &(dyn Error + 'static)) -> Self {
        Self {
            kind: FailureKind::Setup,
            expected: format!("to {what}"),
            found: chain(error),
        }
    }

    /// What the failure says about the rule.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// What the check expected.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What it found instead.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl Error for Failure {}

#[cfg(unix)]
impl From<crate::ServerError> for Failure {
    fn from(error: crate::ServerError) -> Self {
        Self::setup("use a redis-server", &error)
    }
}

/// Returns an error and its causes as one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Fails unless `found` is what was expected of `what`.
///
/// # Errors
///
/// A [`Failure`] with both.
pub fn expect_eq<T: PartialEq + fmt::Debug>(what: &str, expected: &T, found: &T) -> CheckResult {
    if expected == found {
        return Ok(());
    }
    Err(Failure::new(
        format!("{what}: {expected:?}"),
        format!("{found:?}"),
    ))
}

/// Fails with what was found unless the condition holds.
///
/// # Errors
///
/// A [`Failure`] with both.
pub fn expect(holds: bool, expected: &str, found: impl fmt::Debug) -> CheckResult {
    if holds {
        return Ok(());
    }
    Err(Failure::new(expected, format!("{found:?}")))
}
