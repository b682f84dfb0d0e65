//! Why a check failed.

use std::error::Error;
use std::fmt;

/// What a check comes to.
pub type CheckResult<T = ()> = Result<T, Failure>;

/// Why a check failed: what it expected and what it found.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: FailureKind,
    expected: String,
    found: String,
}

/// Whose fault a [`Failure`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The rule is broken.
    Broken,
    /// The harness has no way to do what the check needs.
    Unsupported,
    /// The check could not be carried out, for instance because no server could be started. It says
    /// nothing about the rule.
    Setup,
}

impl Failure {
    /// The rule is broken: this was expected, and that was found.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Broken,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// The harness cannot do `what`. A check that fails so belongs under `unsupported`, with a
    /// reason.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self {
            kind: FailureKind::Unsupported,
            expected: format!("a harness that can {what}"),
            found: "this one cannot".to_owned(),
        }
    }

    /// The check could not be carried out.
    pub fn setup(what: impl fmt::Display, error: &(dyn Error + 'static)) -> Self {
        Self {
            kind: FailureKind::Setup,
            expected: format!("to {what}"),
            found: chain(error),
        }
    }

    /// Whose fault it is.
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

/// An error and its causes in one line.
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
