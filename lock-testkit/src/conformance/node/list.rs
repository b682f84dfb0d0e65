//! Which checks of nodes there are.

use super::{NodeCheck, checks};
use crate::conformance::rule::Rule;
use crate::conformance::run::CheckInfo;
use crate::conformance::suite::is_required;

/// Hands the list of checks to a macro: whether a check is required, its rule, and where it stands.
///
/// A check that is added here reaches every backend that runs the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __node_checks {
    ($callback:ident) => {
        $callback! {
            required N2 replies::a_free_key_is_set,
            required N2 replies::a_taken_key_is_refused_and_left_alone,
        }
    };
}

macro_rules! table {
    ($($need:ident $rule:ident $module:ident::$name:ident,)*) => {
        /// All checks of the suite for nodes, in order.
        pub static NODE_CHECKS: &[NodeCheck] = &[$(NodeCheck {
            info: CheckInfo {
                name: stringify!($name),
                rule: Rule::$rule,
                required: is_required!($need),
            },
            run: |cx| Box::pin(checks::$module::$name(cx)),
        }),*];

        /// Their names, and whether they are required.
        #[doc(hidden)]
        pub const NODE_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__node_checks! { table }
