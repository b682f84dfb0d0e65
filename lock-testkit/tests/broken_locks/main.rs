//! The suite for locks notices broken ones: each bug of the [`table`](mutants) fails the checks
//! that are named there.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod bed;
mod errors;
mod guard;
mod lock;
mod mutants;
mod node;
mod requests;

use std::sync::Arc;

use bed::BrokenHarness;
use lock_testkit::conformance::lock::{LOCK_CHECKS, LockCheck, check};
use lock_testkit::conformance::{FailureKind, LockHarness, TestCase};
use mutants::{Bug, MUTANTS};

fn named(name: &str) -> &'static LockCheck {
    let named = LOCK_CHECKS.iter().find(|check| check.info().name == name);
    named.unwrap_or_else(|| panic!("there is no check `{name}`"))
}

/// Fails unless each of the checks finds the bug, and not by its deadline. A second process
/// is started as the test that this is called from, with that test's name.
fn assert_killed(bug: Bug, test: &'static str, by: &[&str]) {
    let harness: Arc<dyn LockHarness> = Arc::new(BrokenHarness::new(bug));
    let case = TestCase {
        module: concat!(module_path!(), "::mutants::noticed"),
        name: test,
        unsupported: None,
    };
    for name in by {
        let Err(failure) = check(&harness, named(name), case) else {
            panic!("`{name}` does not notice {bug:?}");
        };
        assert_eq!(failure.kind(), FailureKind::Broken, "{name}: {failure}");
        let is_hang = failure.found().contains("it hangs");
        assert!(!is_hang, "{name} ends by its deadline: {failure}");
        println!("{bug:?} fails `{name}`: {failure}");
    }
}

#[test]
fn every_check_has_a_mutant() {
    let is_covered = |check: &&LockCheck| {
        let name = check.info().name;
        MUTANTS.iter().any(|(_, by)| by.contains(&name))
    };
    let without: Vec<_> = (LOCK_CHECKS.iter())
        .filter(|check| !is_covered(check))
        .map(|check| check.info().name)
        .collect();
    assert!(without.is_empty(), "no mutant for {without:?}");
}

#[test]
fn without_a_bug_nothing_fails() {
    let harness: Arc<dyn LockHarness> = Arc::new(BrokenHarness::new(Bug::None));
    for check in LOCK_CHECKS {
        match check.run(&harness) {
            Ok(()) => {}
            Err(failure) if failure.kind() == FailureKind::Unsupported => {}
            Err(failure) => panic!("{}: {failure}", check.info().name),
        }
    }
}
