//! Runs one check, with a deadline, and reports its outcome.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::failure::{CheckResult, Failure, FailureKind};
use super::rule::Rule;

/// The time after which a check counts as hung. It takes seconds at most; a machine that is busy with
/// other tests needs longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A check's name and rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckInfo {
    /// The name of the check, and of the test that a macro makes of it.
    pub name: &'static str,
    /// The rule that is broken if it fails.
    pub rule: Rule,
    /// Whether every implementation has to pass it, so that it cannot be declared unsupported.
    pub required: bool,
}

/// The outcome of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The check.
    pub check: CheckInfo,
    /// Its result.
    pub result: CheckResult,
    /// Why it was declared unsupported, if it was.
    pub unsupported: Option<String>,
}

impl Outcome {
    pub(crate) fn new(check: CheckInfo, result: CheckResult, unsupported: Option<String>) -> Self {
        Self {
            check,
            result,
            unsupported,
        }
    }

    /// Returns whether the outcome is the right one: the check passed, or it is declared unsupported
    /// and failed, in any way except that it could not be carried out.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match (&self.unsupported, &self.result) {
            (None, result) => result.is_ok(),
            (Some(_), Err(failure)) => failure.kind() != FailureKind::Setup,
            (Some(_), Ok(())) => false,
        }
    }

    /// Ends a test: panics unless the outcome is good.
    pub(crate) fn assert_good(&self) {
        assert!(self.is_good(), "{self}");
        println!("{self}");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckInfo { name, rule, .. } = self.check;
        match (&self.unsupported, &self.result) {
            (None, Ok(())) => write!(f, "`{name}` passed: {rule}"),
            (Some(reason), Ok(())) => write!(
                f,
                "`{name}` is declared unsupported ({reason}), but it passes: remove it from \
                 `unsupported`"
            ),
            (_, Err(failure)) if failure.kind() == FailureKind::Setup => write!(
                f,
                "`{name}` could not be carried out\n  wanted:   {}\n  found:    {}",
                failure.expected(),
                failure.found()
            ),
            (None, Err(failure)) if failure.kind() == FailureKind::Unsupported => write!(
                f,
                "`{name}` cannot be checked here: it needs {}\n  rule:     {rule} {}\n  to do:    if \
                 that is as it has to be, name the check under `unsupported`, with the reason",
                failure.expected(),
                rule.text()
            ),
            (declared, Err(failure)) => {
                if let Some(reason) = declared {
                    writeln!(f, "`{name}` is declared unsupported ({reason}) and fails:")?;
                }
                write!(
                    f,
                    "`{name}` found rule {rule} broken\n  rule:     {rule} {}\n  expected: {}\n  \
                     found:    {}",
                    rule.text(),
                    failure.expected(),
                    failure.found()
                )
            }
        }
    }
}

/// Runs the check on a thread of its own. A panic and a hang are failures too.
pub(crate) fn with_deadline(
    name: &str,
    deadline: Duration,
    check: impl FnOnce() -> CheckResult + Send + 'static,
) -> CheckResult {
    let (sender, receiver) = channel();
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
            Err(Failure::new(
                "no panic",
                format!("panic: {}", text_of(&*panic)),
            ))
        });
        // After the deadline the result is no longer received.
        sender.send(result).ok();
    };
    // A thread that hangs cannot be ended: it stays until the test process ends.
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run) {
        return Err(Failure::setup("start a thread", &error));
    }
    match receiver.recv_timeout(deadline) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(Failure::new(
            format!("an end within {} s", deadline.as_secs()),
            "no end: it hangs",
        )),
        Err(RecvTimeoutError::Disconnected) => Err(Failure::new("a result", "none")),
    }
}

/// Runs the future of a check on a driver, in a thread of its own.
pub(crate) fn drive(
    check: CheckInfo,
    driver: Arc<dyn super::Driver>,
    future: impl FnOnce(
        Arc<dyn lock_core::Runtime>,
    ) -> lock_core::runtime::BoxFuture<'static, CheckResult>
    + Send
    + 'static,
) -> CheckResult {
    with_deadline(check.name, DEADLINE, move || {
        let mut result = Err(Failure::new(
            "an end of the check",
            "none: the driver gave it up",
        ));
        let slot = &mut result;
        let on = Arc::clone(&driver);
        driver.block_on(Box::pin(async move {
            *slot = future(on.runtime()).await;
        }));
        result
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    match panic.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => "no text".to_owned(),
    }
}
