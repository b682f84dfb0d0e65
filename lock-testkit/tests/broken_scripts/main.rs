//! No line of a script is there in vain: without it, a check of the suite for nodes fails.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod node;
mod script;

use std::sync::Arc;

use lock_testkit::conformance::node::{NODE_CHECKS, NodeCheck};
use lock_testkit::conformance::{FailureKind, NodeHarness, RedisHarness, ThreadDriver};
use node::ScriptNode;
use script::Script;

/// Checks that together look at all that a script does. The one that looks at everything comes
/// last, so that the others show what they are for.
const CHECKS: &[(&str, &[&str])] = &[
    (
        "acquire",
        &[
            "a_free_key_is_set_by_script",
            "an_acquire_by_script_knows_its_own_token_and_changes_nothing",
            "an_acquire_by_script_tells_of_a_key_that_lives_for_ever",
            "a_key_of_another_type_is_refused_and_left_alone",
            "a_long_value_is_told_by_its_first_128_bytes",
            "an_error_inside_a_script_is_an_error",
            "a_script_that_may_not_set_is_an_error",
            "every_reply_has_the_form_that_the_docs_name",
        ],
    ),
    (
        "extend",
        &[
            "an_extension_lengthens_the_life_of_its_own_key",
            "an_extension_never_shortens_a_life",
            "an_extension_of_many_answers_for_each_in_order",
            "an_extension_leaves_the_key_of_another_alone",
            "an_extension_leaves_a_key_of_another_type_alone",
            "extensions_are_exact_to_the_millisecond",
            "an_error_inside_a_script_is_an_error",
            "every_reply_has_the_form_that_the_docs_name",
        ],
    ),
    (
        "release",
        &[
            "a_release_deletes_its_own_key",
            "a_second_release_finds_no_key",
            "a_release_leaves_the_key_of_another_alone",
            "a_release_leaves_a_key_of_another_type_alone",
            "a_release_that_keeps_cuts_a_longer_life",
            "a_release_that_keeps_never_lengthens_a_life",
            "what_a_release_keeps_is_exact_to_the_millisecond",
            "a_key_that_lost_its_lifetime_gets_one_from_its_holder",
            "an_error_inside_a_script_is_an_error",
            "every_reply_has_the_form_that_the_docs_name",
        ],
    ),
];

/// Changes inside a line: the script, what stands there, what is put in its place, and who notices.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    (
        "acquire",
        ", 'PX', ARGV[2]",
        "",
        "a_free_key_is_set_by_script",
    ),
    (
        "acquire",
        "string.sub(held_by, 1, 128)",
        "held_by",
        "a_long_value_is_told_by_its_first_128_bytes",
    ),
    (
        "acquire",
        "string.sub(held_by, 1, 128)",
        "ARGV[1]",
        "an_acquire_by_script_tells_of_a_key_that_lives_for_ever",
    ),
    (
        "acquire",
        "{false,",
        "{'',",
        "a_key_of_another_type_is_refused_and_left_alone",
    ),
    (
        "acquire",
        "pcall('GET'",
        "call('GET'",
        "a_key_of_another_type_is_refused_and_left_alone",
    ),
    (
        "extend",
        "redis.call('PTTL', key) < ttl",
        "true",
        "an_extension_never_shortens_a_life",
    ),
    (
        "extend",
        "ARGV[2 * i - 1]",
        "ARGV[1]",
        "an_extension_of_many_answers_for_each_in_order",
    ),
    (
        "extend",
        "ARGV[2 * i])",
        "ARGV[2])",
        "an_extension_of_many_answers_for_each_in_order",
    ),
    (
        "extend",
        "held_by == ARGV[2 * i - 1]",
        "held_by",
        "an_extension_leaves_the_key_of_another_alone",
    ),
    (
        "extend",
        "'PEXPIRE', key, ttl",
        "'EXPIRE', key, math.floor(ttl / 1000)",
        "extensions_are_exact_to_the_millisecond",
    ),
    (
        "release",
        "held_by == ARGV[1]",
        "held_by",
        "a_release_leaves_the_key_of_another_alone",
    ),
    (
        "release",
        "left < 0 or ",
        "",
        "a_key_that_lost_its_lifetime_gets_one_from_its_holder",
    ),
    (
        "release",
        " or left > keep",
        "",
        "a_release_that_keeps_cuts_a_longer_life",
    ),
    (
        "release",
        "left < 0 or left > keep",
        "true",
        "a_release_that_keeps_never_lengthens_a_life",
    ),
    (
        "release",
        "'PEXPIRE', KEYS[1], keep",
        "'EXPIRE', KEYS[1], math.floor(keep / 1000)",
        "what_a_release_keeps_is_exact_to_the_millisecond",
    ),
    (
        "release",
        "pcall('GET'",
        "call('GET'",
        "a_release_leaves_a_key_of_another_type_alone",
    ),
];

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
fn assert_each_line_is_needed(name: &str) {
    let (_, checks) = CHECKS.iter().find(|(script, _)| *script == name).unwrap();
    let mut needless = Vec::new();
    for (line, shorter) in Script::named(name).without_each_line() {
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
fn each_line_of_the_release_script_is_needed() {
    assert_each_line_is_needed("release");
}
