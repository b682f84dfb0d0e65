//! No line of a script is there in vain: without it, a check of the suite for nodes fails.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod node;
mod script;
mod tables;

use std::sync::Arc;

use lock_testkit::conformance::node::{NODE_CHECKS, NodeCheck};
use lock_testkit::conformance::{FailureKind, NodeHarness, RedisHarness, ThreadDriver};
use node::ScriptNode;
use script::Script;
use tables::{CHANGES, CHECKS};

fn harness(script: Script) -> Arc<dyn NodeHarness> {
    Arc::new(RedisHarness::new(ThreadDriver::new(), move |target| {
        let script = script.clone();
        async move { ScriptNode::connect(&target, script) }
    }))
}

fn check(name: &str) -> &'static NodeCheck {
    let named = NODE_CHECKS.iter().find(|check| check.info().name == name);
    named.unwrap_or_else(|| panic!("there is no check `{name}`"))
}

/// Whether the check finds the script broken.
fn fails(harness: &Arc<dyn NodeHarness>, name: &str) -> bool {
    let Err(failure) = check(name).run(harness) else {
        return false;
    };
    assert_eq!(failure.kind(), FailureKind::Broken, "{failure}");
    assert!(!failure.found().contains("panic"), "{failure}");
    true
}

#[test]
fn with_all_their_lines_the_scripts_pass() {
    for (script, checks) in CHECKS {
        let harness = harness(Script::named(script));
        for name in *checks {
            let result = check(name).run(&harness);
            result.unwrap_or_else(|failure| panic!("`{name}`: {failure}"));
        }
    }
}

#[test]
fn each_part_of_a_line_is_needed() {
    for (name, part, instead, noticed_by) in CHANGES {
        let changed = Script::named(name).with(part, instead);
        let noticed = fails(&harness(changed), noticed_by);
        assert!(
            noticed,
            "{name}.lua: {instead:?} for {part:?} passes {noticed_by}"
        );
    }
}

/// Prints which check is the first that fails without a line.
fn assert_each_line_is_needed(name: &'static str) {
    assert_lines_are_needed(name, |_| true);
}

fn assert_lines_are_needed(name: &'static str, is_meant: impl Fn(usize) -> bool) {
    let (_, checks) = CHECKS.iter().find(|(script, _)| *script == name).unwrap();
    let mut needless = Vec::new();
    for (number, line, shorter) in Script::named(name).without_each_line() {
        if !is_meant(number) {
            continue;
        }
        let harness = harness(shorter);
        match checks.iter().find(|name| fails(&harness, name)) {
            Some(check) => println!("{line}\n    without it fails {check}"),
            None => needless.push(line),
        }
    }
    assert!(
        needless.is_empty(),
        "no check misses these lines: {needless:#?}"
    );
}

#[test]
fn each_line_of_the_acquire_script_is_needed() {
    assert_each_line_is_needed("acquire");
}

#[test]
fn each_line_of_the_extend_script_is_needed() {
    assert_each_line_is_needed("extend");
}

#[test]
fn each_line_of_the_exchange_script_is_needed() {
    assert_each_line_is_needed("exchange");
}

#[test]
fn each_line_of_the_release_script_is_needed() {
    assert_each_line_is_needed("release");
}

#[test]
fn each_line_of_the_acquire_script_for_several_is_needed() {
    assert_each_line_is_needed("acquire_all");
}

#[test]
fn each_line_of_the_release_script_for_several_is_needed() {
    assert_each_line_is_needed("release_all");
}

#[test]
fn each_line_of_the_inspect_script_is_needed() {
    assert_each_line_is_needed("inspect");
}

/// Those of the script behind it are the business of others.
#[test]
fn each_line_of_the_restart_guard_is_needed() {
    let guarded = Script::named("acquire_guarded");
    let guard = guarded.source.split_inclusive("\nend\n").next().unwrap();
    let lines = guard.lines().count();
    assert_lines_are_needed("acquire_guarded", |line| line <= lines);
}

#[test]
fn each_line_of_the_bootstrap_script_is_needed() {
    assert_each_line_is_needed("bootstrap");
}

#[test]
fn each_line_of_the_remove_script_is_needed() {
    assert_each_line_is_needed("remove");
}

#[test]
fn each_line_of_the_script_that_acquires_with_a_token_is_needed() {
    assert_each_line_is_needed("acquire_fenced");
}

#[test]
fn each_line_of_the_confirmation_script_is_needed() {
    assert_each_line_is_needed("confirm");
}
