//! What has to hold between our locks and those of a library, whichever that is.

mod competing;
mod ending;
mod extending;
mod holding;
mod names;

use futures::future::LocalBoxFuture;

use crate::library::Library;
use crate::scene::Scene;

pub(crate) struct Scenario {
    /// The claim.
    pub(crate) name: &'static str,
    /// Which libraries it is about.
    pub(crate) applies: fn(Library) -> bool,
    /// Whether it is run over each of our clients. What is on the servers is the same, so few are.
    pub(crate) over_all_clients: bool,
    /// Panics if the claim is wrong.
    pub(crate) run: for<'a> fn(&'a mut Scene) -> LocalBoxFuture<'a, ()>,
}

macro_rules! scenarios {
    ($($module:ident::$name:ident $(if $applies:path)? $(, $everywhere:ident)?;)*) => {
        pub(crate) const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            applies: scenarios!(@applies $($applies)?),
            over_all_clients: scenarios!(@everywhere $($everywhere)?),
            run: |scene| Box::pin($module::$name(scene)),
        }),*];
    };
    (@applies $applies:path) => { $applies };
    (@applies) => { |_| true };
    (@everywhere over_all_clients) => { true };
    (@everywhere) => { false };
}

scenarios! {
    holding::their_lock_keeps_us_out_and_our_error_says_who_holds_it, over_all_clients;
    holding::our_lock_keeps_them_out, over_all_clients;
    holding::what_they_release_is_ours_at_once, over_all_clients;
    holding::what_we_release_is_theirs_at_once, over_all_clients;
    holding::what_we_hold_at_least_is_kept_from_them_after_our_release;
    holding::a_server_that_forgot_changes_nothing if has_several_servers;
    holding::a_dead_server_changes_nothing if has_several_servers;
    extending::their_extension_keeps_us_out;
    extending::our_extension_keeps_them_out;
    extending::our_automatic_extension_keeps_them_out;
    ending::what_they_let_expire_is_ours_and_they_cannot_touch_it;
    ending::what_we_let_expire_is_theirs_and_we_cannot_touch_it;
    ending::what_an_operator_took_from_them_is_ours_and_they_cannot_touch_it;
    ending::what_servers_forgot_is_theirs_and_we_cannot_touch_it;
    competing::no_update_is_lost_when_both_compete, over_all_clients;
    names::a_prefix_is_part_of_the_key;
    names::names_are_the_bytes_of_utf_8;
    names::several_names_in_one_request_are_as_many_keys if Library::locks_several;
    names::a_hash_under_the_name_keeps_both_out_and_stays;
    names::a_lock_of_theirs_may_live_for_ever if Library::may_live_for_ever;
}

fn has_several_servers(library: Library) -> bool {
    library.servers() > 1
}
