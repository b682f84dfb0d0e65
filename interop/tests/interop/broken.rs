//! The scenarios notice when locks do not exclude each other: each bug on either side fails those
//! named here, and each scenario has a bug that it is for.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::broken_node::OurBug;
use crate::peer::Peer;
use crate::plain::{Bug, Plain};
use crate::scenarios::{SCENARIOS, Scenario};
use crate::scene::{Client, Scene};
use crate::{block_on, start};

#[derive(Clone, Copy, Debug)]
enum Broken {
    Theirs(Bug),
    Ours(OurBug),
}

use Broken::{Ours, Theirs};

const MUTANTS: &[(Broken, &[&str])] = &[
    (
        Theirs(Bug::Prefix),
        &[
            "their_lock_keeps_us_out_and_our_error_says_who_holds_it",
            "a_prefix_is_part_of_the_key",
        ],
    ),
    (
        Theirs(Bug::TakesAnyway),
        &[
            "our_lock_keeps_them_out",
            "what_we_hold_at_least_is_kept_from_them_after_our_release",
            "our_extension_keeps_them_out",
            "no_update_is_lost_when_both_compete",
            "a_hash_under_the_name_keeps_both_out_and_stays",
        ],
    ),
    (
        Theirs(Bug::SetsNothing),
        &["their_lock_keeps_us_out_and_our_error_says_who_holds_it"],
    ),
    (
        Theirs(Bug::ReleasesAny),
        &["what_an_operator_took_from_them_is_ours_and_they_cannot_touch_it"],
    ),
    (
        Theirs(Bug::ReleasesNothing),
        &["what_they_release_is_ours_at_once"],
    ),
    (
        Theirs(Bug::ExtendsAny),
        &["what_they_let_expire_is_ours_and_they_cannot_touch_it"],
    ),
    (
        Theirs(Bug::ExtendsNothing),
        &["their_extension_keeps_us_out"],
    ),
    (
        Theirs(Bug::Joins),
        &["several_names_in_one_request_are_as_many_keys"],
    ),
    (
        Theirs(Bug::OneIsEnough),
        &["a_server_that_forgot_changes_nothing"],
    ),
    (
        Theirs(Bug::AllAreNeeded),
        &["a_dead_server_changes_nothing"],
    ),
    (Theirs(Bug::Encoding), &["names_are_the_bytes_of_utf_8"]),
    (
        Theirs(Bug::AlwaysExpires),
        &["a_lock_of_theirs_may_live_for_ever"],
    ),
    (
        Ours(OurBug::TakesAnyway),
        &[
            "their_lock_keeps_us_out_and_our_error_says_who_holds_it",
            "no_update_is_lost_when_both_compete",
        ],
    ),
    (
        Ours(OurBug::ReleasesAny),
        &[
            "what_we_let_expire_is_theirs_and_we_cannot_touch_it",
            "what_servers_forgot_is_theirs_and_we_cannot_touch_it",
        ],
    ),
    (
        Ours(OurBug::ReleasesNothing),
        &["what_we_release_is_theirs_at_once"],
    ),
    (
        Ours(OurBug::ExtendsNothing),
        &[
            "our_extension_keeps_them_out",
            "our_automatic_extension_keeps_them_out",
            "what_servers_forgot_is_theirs_and_we_cannot_touch_it",
        ],
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    silence_what_is_expected();
    let pairs = MUTANTS
        .iter()
        .flat_map(|(bug, by)| by.iter().map(move |name| (*bug, *name)));
    let found = pairs.map(|(bug, name)| {
        let bug_name = match bug {
            Theirs(bug) => format!("theirs::{bug:?}"),
            Ours(bug) => format!("ours::{bug:?}"),
        };
        let title = format!("broken::{bug_name}::{name}");
        Trial::test(title, move || is_found(bug, name))
    });
    let complete = Trial::test("broken::each_scenario_has_a_bug", || {
        let is_named =
            |scenario: &&Scenario| MUTANTS.iter().any(|(_, by)| by.contains(&scenario.name));
        match SCENARIOS.iter().find(|scenario| !is_named(scenario)) {
            Some(without) => Err(Failed::from(format!(
                "nothing shows what {} is for",
                without.name
            ))),
            None => Ok(()),
        }
    });
    found.chain([complete]).collect()
}

/// Long enough for what happens, and not too long for what does not.
const PATIENCE: Duration = Duration::from_secs(5);

fn is_found(bug: Broken, name: &str) -> Result<(), Failed> {
    let named = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = named.ok_or_else(|| format!("there is no scenario `{name}`"))?;
    let servers = start(3);
    let plain = Plain::new(&servers);
    let (client, theirs) = match bug {
        Theirs(bug) => (Client::RedisRs, plain.broken(bug)),
        Ours(bug) => (Client::Broken(bug), plain),
    };
    let theirs: Box<dyn Peer> = Box::new(theirs);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        block_on(async {
            let mut scene = Scene::new(servers, client, theirs, PATIENCE).await;
            IS_EXPECTED.set(true);
            (scenario.run)(&mut scene).await;
        });
    }));
    let was_expected = IS_EXPECTED.take();
    match outcome {
        Err(_) if was_expected => Ok(()),
        Err(panic) => panic::resume_unwind(panic),
        Ok(()) => Err(Failed::from("it is not noticed")),
    }
}

thread_local! {
    /// Whether a panic of this thread is what the test waits for.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Else a run without a failure would be full of them.
fn silence_what_is_expected() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_EXPECTED.get() {
            usual(info);
        }
    }));
}
