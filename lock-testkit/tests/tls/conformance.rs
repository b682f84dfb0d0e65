//! The suite for nodes, over TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_testkit::conformance::node::{NODE_CHECKS, NodeHarness, Target};
use lock_testkit::conformance::{FailureKind, RedisHarness};

use super::certificates::Authority;
use crate::backend::trusting;
use crate::support::driver;

fn over_tls(authority: &Authority) -> RedisHarness {
    let [certificate, key, ca] = authority.server_files();
    let pem = authority.pem();
    RedisHarness::new(driver(), move |target: Target| {
        let node = trusting(&target.url(), Duration::from_secs(1), &pem, None);
        async move { Ok::<_, Infallible>(node) }
    })
    .over_tls(certificate, key, ca)
}

/// What the harness cannot do, where it sees no more of commands and replies than their ciphers.
/// These checks are made in plain text.
const GAPS: [&str; 14] = [
    "a_command_that_was_answered_with_an_error_is_not_sent_again",
    "a_command_that_was_lost_is_not_sent_again",
    "a_lost_reply_is_an_error_to_every_command",
    "a_replaced_connection_takes_the_releases_of_its_acquires",
    "an_acquire_whose_reply_was_lost_is_not_sent_again",
    "an_acquire_whose_reply_was_lost_knows_its_token",
    "an_error_breaks_no_connection",
    "calls_on_a_connection_that_breaks_are_in_doubt",
    "commands_for_one_key_arrive_in_the_order_of_the_calls",
    "connections_do_not_grow_with_faults",
    "loading_is_an_error_with_its_code",
    "many_calls_share_few_connections",
    "moved_is_an_error_with_its_code_and_not_followed",
    "nothing_is_sent_twice_while_connections_break",
];

#[test]
fn a_node_keeps_the_rules_over_tls() {
    let authority = Authority::new();
    let harness: Arc<dyn NodeHarness> = Arc::new(over_tls(&authority));
    let next = AtomicUsize::new(0);
    let gaps = AtomicUsize::new(0);
    let run = || {
        while let Some(check) = NODE_CHECKS.get(next.fetch_add(1, Ordering::Relaxed)) {
            match check.run(&harness) {
                Ok(()) => {}
                Err(failure) if failure.kind() == FailureKind::Unsupported => {
                    assert!(GAPS.contains(&check.info().name), "{}", check.info().name);
                    gaps.fetch_add(1, Ordering::Relaxed);
                }
                Err(failure) => panic!("`{}`: {failure}", check.info().name),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(run);
        }
    });
    assert_eq!(gaps.into_inner(), GAPS.len());
}
