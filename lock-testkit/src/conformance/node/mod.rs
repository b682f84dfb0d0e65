//! The suite for nodes: anything that implements [`RedisNode`](lock_core::RedisNode).

mod calls;
mod checks;
mod commands;
mod cx;
mod harness;
mod list;
mod looks;
mod memory;
#[cfg(unix)]
mod redis;
mod show;

use std::sync::Arc;
use std::time::Duration;

use lock_core::runtime::BoxFuture;

pub use cx::NodeCx;
pub use harness::{Access, Denial, Entry, NodeBed, NodeFault, NodeHarness, Protocol};
pub use list::{NODE_CHECK_NAMES, NODE_CHECKS};
pub use memory::MemoryHarness;
#[cfg(unix)]
pub use redis::{RedisHarness, Target};

use super::report::Report;
use super::run::{CheckInfo, Outcome, drive};
use super::{CheckResult, TestCase, suite};

/// One check of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeCheck {
    info: CheckInfo,
    subject: &'static str,
    run: for<'a> fn(&'a NodeCx) -> BoxFuture<'a, CheckResult>,
}

impl NodeCheck {
    /// The check's name and rule.
    #[must_use]
    pub fn info(&self) -> CheckInfo {
        self.info
    }

    /// The subject of the check, in a word.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        self.subject
    }

    /// Runs the check, on a server of its own, with a deadline.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn run(&self, harness: &Arc<dyn NodeHarness>) -> CheckResult {
        self.run_with_patience(harness, cx::PATIENCE)
    }

    /// Runs the check, as [`run`](Self::run) does, but anything that happens by itself, such as a
    /// reconnect or the end of a call, may take no longer than this. `run` allows 30 s, for busy
    /// machines; less is for a node that is known to fail.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn run_with_patience(
        &self,
        harness: &Arc<dyn NodeHarness>,
        patience: Duration,
    ) -> CheckResult {
        let (harness, run) = (Arc::clone(harness), self.run);
        drive(self.info, harness.driver(), move |runtime| {
            Box::pin(async move {
                let cx = NodeCx::start(&*harness, runtime, patience).await?;
                run(&cx).await
            })
        })
    }
}

/// Runs the whole suite, one check after the other, for test runners that the macro does not fit.
///
/// `unsupported` names the checks that must fail, each with its reason. A name that is not a check, or
/// that of a required one, makes the outcome a bad one.
pub fn run_all(harness: impl NodeHarness, unsupported: &[(&str, &str)]) -> Report {
    let harness: Arc<dyn NodeHarness> = Arc::new(harness);
    let checks = NODE_CHECKS.iter().map(|check| (check.info, check));
    suite::run_all(checks, unsupported, |check| {
        let name = check.info.name;
        let declared = unsupported.iter().any(|(declared, _)| *declared == name);
        check.run_with_patience(&harness, patience_for(declared))
    })
}

/// Runs one check for the macro, and panics unless its outcome is good.
#[doc(hidden)]
pub fn test(harness: impl NodeHarness, case: TestCase) {
    let harness: Arc<dyn NodeHarness> = Arc::new(harness);
    let check = NODE_CHECKS
        .iter()
        .find(|check| check.info.name == case.name);
    let Some(check) = check else {
        panic!("there is no check `{}`", case.name);
    };
    let result = check.run_with_patience(&harness, patience_for(case.unsupported.is_some()));
    let unsupported = case.unsupported.map(str::to_owned);
    Outcome::new(check.info, result, unsupported).assert_good();
}

/// Returns how long to wait: not long for a check that is declared unsupported, which is bound to
/// fail.
fn patience_for(declared_unsupported: bool) -> Duration {
    if declared_unsupported {
        Duration::from_secs(3)
    } else {
        cx::PATIENCE
    }
}
