//! Which checks of locks there are.

use super::{LockCheck, checks};
use crate::conformance::rule::Rule;
use crate::conformance::run::CheckInfo;
use crate::conformance::suite::is_required;

/// Hands the list of checks to a macro: whether a check is required, its rule, and where it stands.
///
/// A check that is added here reaches every lock that runs the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_checks {
    ($callback:ident) => {
        $callback! {
            required L10 everyday::a_released_lock_is_free_and_leaves_nothing,
        }
    };
}

macro_rules! table {
    ($($need:ident $rule:ident $module:ident::$name:ident,)*) => {
        /// All checks of the suite for locks, in order.
        pub static LOCK_CHECKS: &[LockCheck] = &[$(LockCheck {
            info: CheckInfo {
                name: stringify!($name),
                rule: Rule::$rule,
                required: is_required!($need),
            },
            run: |cx| Box::pin(checks::$module::$name(cx)),
        }),*];

        /// Their names, and whether they are required.
        #[doc(hidden)]
        pub const LOCK_CHECK_NAMES: &[(&str, bool)] =
            &[$((stringify!($name), is_required!($need))),*];
    };
}
__lock_checks! { table }
