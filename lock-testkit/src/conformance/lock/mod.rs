//! The suite for locks: anything that implements
//! [`DistributedLock`](lock_core::DistributedLock).

mod checks;
mod child;
mod cx;
mod harness;
mod list;
mod process;
mod redlock;

use std::sync::Arc;

use lock_core::runtime::BoxFuture;

use child::Again;
pub use cx::LockCx;
pub use harness::{LockBed, LockHarness};
pub use list::{LOCK_CHECK_NAMES, LOCK_CHECKS};
pub use redlock::RedlockHarness;

use super::report::Report;
use super::run::{CheckInfo, Outcome, drive};
use super::{CheckResult, TestCase, suite};

/// One check of a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockCheck {
    info: CheckInfo,
    run: for<'a> fn(&'a LockCx) -> BoxFuture<'a, CheckResult>,
}

impl LockCheck {
    /// The check's name and rule.
    #[must_use]
    pub fn info(&self) -> CheckInfo {
        self.info
    }

    /// Runs the check, in a world of its own, with a deadline.
    ///
    /// A check that needs a second process needs [`run_all`] or the macro, and fails here.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn run(&self, harness: &Arc<dyn LockHarness>) -> CheckResult {
        self.run_with(harness, Again::Nothing)
    }

    fn run_with(&self, harness: &Arc<dyn LockHarness>, again: Again) -> CheckResult {
        let (harness, run) = (Arc::clone(harness), self.run);
        drive(self.info, harness.driver(), move |runtime| {
            Box::pin(async move {
                let cx = LockCx::start(&*harness, runtime, again).await?;
                run(&cx).await
            })
        })
    }
}

/// Runs the whole suite, one check after the other, for test runners that the macro does not fit.
///
/// `unsupported` names the checks that must fail, each with its reason. A name that is not a check, or
/// that of a required one, makes the outcome a bad one.
///
/// # Processes
///
/// Checks that need a second process start this program again, without arguments, and with
/// environment variables by which `run_all` knows that it is in the second process: it then plays its
/// part and ends the process instead of returning. So the program has to get to `run_all` by itself,
/// soon, and without asking anything. If it calls `run_all` several times, it has to do so in the same
/// order, and not from several threads. A call other than the one that is meant returns an empty
/// report.
pub fn run_all(harness: impl LockHarness, unsupported: &[(&str, &str)]) -> Report {
    let harness: Arc<dyn LockHarness> = Arc::new(harness);
    let again = Again::program();
    if again.play_child(&harness) {
        return Report::default();
    }
    let checks = LOCK_CHECKS.iter().map(|check| (check.info, check));
    suite::run_all(checks, unsupported, |check| check.run_with(&harness, again))
}

/// Runs one check for a test. A second process is started as this one test.
///
/// # Errors
///
/// Why it failed.
#[doc(hidden)]
pub fn check(harness: &Arc<dyn LockHarness>, check: &LockCheck, case: TestCase) -> CheckResult {
    let again = Again::Test(case);
    again.play_child(harness);
    check.run_with(harness, again)
}

/// Runs one check for the macro, and panics unless its outcome is good.
#[doc(hidden)]
pub fn test(harness: impl LockHarness, case: TestCase) {
    let harness: Arc<dyn LockHarness> = Arc::new(harness);
    let found = LOCK_CHECKS
        .iter()
        .find(|check| check.info.name == case.name);
    let Some(found) = found else {
        panic!("there is no check `{}`", case.name);
    };
    let unsupported = case.unsupported.map(str::to_owned);
    Outcome::new(found.info, check(&harness, found, case), unsupported).assert_good();
}
