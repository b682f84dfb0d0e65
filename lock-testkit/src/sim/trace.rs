//! A readable record of what happened.

use std::time::Duration;

/// A readable trace, kept only when a seed is replayed.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Vec<String>>);

impl Trace {
    pub(crate) fn new(is_on: bool) -> Self {
        Self(is_on.then(Vec::new))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn push(&mut self, now: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(format!("{:>14.6} {}", now.as_secs_f64(), line()));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.0.take().unwrap_or_default()
    }
}
