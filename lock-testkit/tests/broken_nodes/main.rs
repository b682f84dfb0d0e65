//! The suite for nodes notices broken ones: each bug of the [`table`](mutants) fails the checks
//! that are named there.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod acquiring;
mod bed;
mod concurrency;
mod exchanging;
mod extending;
mod fencing;
mod forms;
mod guarding;
mod inspecting;
mod keys;
mod mutants;
mod node;
mod releasing;
mod scripts;
mod several;

use std::sync::Arc;

use bed::BrokenHarness;
use lock_testkit::conformance::node::{NODE_CHECKS, NodeCheck};
use lock_testkit::conformance::{FailureKind, NodeHarness};
use mutants::{Bug, MUTANTS};

/// The subjects whose bugs are those of `broken_clients`. A check of any other has to find one here.
const OF_BROKEN_CLIENTS: [&str; 10] = [
    "cancelling",
    "connections",
    "cutting",
    "denials",
    "hanging",
    "ordering",
    "protocols",
    "refusing",
    "restarting",
    "secrets",
];

/// The checks that have to find a bug here.
fn own_checks() -> impl Iterator<Item = &'static NodeCheck> {
    let is_own = |check: &&NodeCheck| !OF_BROKEN_CLIENTS.contains(&check.subject());
    NODE_CHECKS.iter().filter(is_own)
}

fn check(name: &str) -> &'static NodeCheck {
    let named = NODE_CHECKS.iter().find(|check| check.info().name == name);
    named.unwrap_or_else(|| panic!("there is no check `{name}`"))
}

/// Fails unless each of the checks finds the bug, and not by its deadline.
fn assert_killed(bug: Bug, by: &[&str]) {
    let harness: Arc<dyn NodeHarness> = Arc::new(BrokenHarness::new(bug));
    for name in by {
        let Err(failure) = check(name).run(&harness) else {
            panic!("`{name}` does not notice {bug:?}");
        };
        println!("{bug:?}: `{name}`: {failure}");
        assert_eq!(failure.kind(), FailureKind::Broken, "{failure}");
        let found = failure.found();
        assert!(
            !found.contains("hangs") && !found.contains("panic"),
            "{failure}"
        );
    }
}

#[test]
fn without_a_bug_all_checks_pass() {
    let harness: Arc<dyn NodeHarness> = Arc::new(BrokenHarness::new(Bug::None));
    for check in own_checks() {
        let name = check.info().name;
        let result = check.run(&harness);
        result.unwrap_or_else(|failure| panic!("`{name}`: {failure}"));
    }
}

#[test]
fn each_check_has_a_mutant() {
    let killers = |name| MUTANTS.iter().filter(move |(_, by)| by.contains(&name));
    let names = own_checks().map(|check| check.info().name);
    let without: Vec<&str> = names
        .filter(|name| killers(*name).next().is_none())
        .collect();
    assert!(
        without.is_empty(),
        "no mutant shows what these are for: {without:#?}"
    );
}

#[test]
fn each_mutant_names_checks_that_exist() {
    for (bug, by) in MUTANTS {
        assert!(!by.is_empty(), "{bug:?}");
        for name in *by {
            check(name);
        }
    }
}
