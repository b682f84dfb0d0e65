//! The suite for locks: anything that implements
//! [`DistributedLock`](lock_core::DistributedLock).

mod checks;
mod cx;
mod harness;
mod list;
mod redlock;

use std::sync::Arc;

use lock_core::runtime::BoxFuture;

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
    /// What the check is called, and what it stands for.
    #[must_use]
    pub fn info(&self) -> CheckInfo {
        self.info
    }

    /// Runs the check, in a world of its own, with a deadline.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn run(&self, harness: &Arc<dyn LockHarness>) -> CheckResult {
        let (harness, run) = (Arc::clone(harness), self.run);
        drive(self.info, harness.driver(), move |runtime| {
            Box::pin(async move {
                let cx = LockCx::start(&*harness, runtime).await?;
                run(&cx).await
            })
        })
    }
}

/// Runs the whole suite, one check after the other, for test runners that the macro does not fit.
///
/// `unsupported` names the checks that must fail, each with its reason. A name that is no check, or
/// that of a required one, is an outcome that is not good.
pub fn run_all(harness: impl LockHarness, unsupported: &[(&str, &str)]) -> Report {
    let harness: Arc<dyn LockHarness> = Arc::new(harness);
    let checks = LOCK_CHECKS.iter().map(|check| (check.info, check));
    suite::run_all(checks, unsupported, |check| check.run(&harness))
}

/// Runs one check for the macro, and panics unless it is as it should be.
#[doc(hidden)]
pub fn test(harness: impl LockHarness, case: TestCase) {
    let harness: Arc<dyn LockHarness> = Arc::new(harness);
    let check = LOCK_CHECKS
        .iter()
        .find(|check| check.info.name == case.name);
    let Some(check) = check else {
        panic!("there is no check `{}`", case.name);
    };
    let unsupported = case.unsupported.map(str::to_owned);
    Outcome::new(check.info, check.run(&harness), unsupported).assert_good();
}
