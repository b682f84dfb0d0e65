//! One test for each check.

/// Makes one `#[test]` of each check of the [suite for nodes](crate::conformance::node).
///
/// ```ignore
/// lock_testkit::conformance! {
///     harness: RedisHarness::new(TokioDriver::multi_thread(), |target| async move {
///         MyNode::new(target.url())
///     }),
///     unsupported: {
///         resp3_replies_are_read_as_those_of_resp2: "the client only knows RESP2",
///     },
/// }
/// ```
///
/// `harness` is evaluated for each test. A check under `unsupported` becomes an ignored test with
/// that reason; with `--include-ignored` it runs and has to fail. A name that is not a check, or that
/// of a check that every node has to pass, does not compile:
///
/// ```compile_fail
/// # use lock_testkit::conformance::{MemoryHarness, ThreadDriver};
/// lock_testkit::conformance! {
///     harness: MemoryHarness::new(ThreadDriver::new()),
///     unsupported: { no_such_check: "a typo" },
/// }
/// ```
///
/// ```compile_fail
/// # use lock_testkit::conformance::{MemoryHarness, ThreadDriver};
/// lock_testkit::conformance! {
///     harness: MemoryHarness::new(ThreadDriver::new()),
///     unsupported: { a_free_key_is_set: "required of every node" },
/// }
/// ```
///
/// Two suites in one file go into two modules.
#[macro_export]
macro_rules! conformance {
    (harness: $harness:expr $(, unsupported: { $($name:ident: $reason:literal),* $(,)? })? $(,)?) => {
        fn __harness() -> impl $crate::conformance::node::NodeHarness {
            $harness
        }
        $crate::__conformance_tests! {
            ($) node __node_checks NODE_CHECK_NAMES [] $($($name $reason,)*)?
        }
    };
}

/// Makes one `#[test]` of each check of the [suite for locks](crate::conformance::lock), as
/// [`conformance!`](crate::conformance!) does for nodes.
///
/// ```ignore
/// lock_testkit::lock_conformance! {
///     harness: RedlockHarness::over(5, MemoryHarness::new(TokioDriver::paused())),
/// }
/// ```
///
/// A lock that has no nodes, or whose nodes the harness cannot break, says so in one word: the checks that
/// need some are then ignored, and have to fail with `--include-ignored`.
///
/// ```ignore
/// lock_testkit::lock_conformance! { harness: MyHarness, without: nodes }
/// ```
///
/// A check that needs a second process starts the test program again for this one test. The same
/// harness is made there again, and [joins](crate::conformance::LockHarness::join) the world of the
/// first one.
#[macro_export]
macro_rules! lock_conformance {
    (harness: $harness:expr, without: nodes $($rest:tt)*) => {
        $crate::__lock_conformance! { $harness, [of_nodes] $($rest)* }
    };
    (harness: $harness:expr $(, $($rest:tt)*)?) => {
        $crate::__lock_conformance! { $harness, [] $(, $($rest)*)? }
    };
}

/// [`lock_conformance!`](crate::lock_conformance!), with the sort of checks that is missing.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_conformance {
    (
        $harness:expr, [$($missing:ident)?]
        $(, unsupported: { $($name:ident: $reason:literal),* $(,)? })? $(,)?
    ) => {
        fn __harness() -> impl $crate::conformance::lock::LockHarness {
            $harness
        }
        $crate::__conformance_tests! {
            ($) lock __lock_checks LOCK_CHECK_NAMES [$($missing)?] $($($name $reason,)*)?
        }
    };
}

/// Makes the tests of either suite. The first argument is a dollar sign, for the macros that it
/// defines.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (
        ($d:tt) $suite:ident $list:ident $names:ident [$($missing:ident)?] $($name:ident $reason:literal,)*
    ) => {
        $(const _: () = $crate::conformance::declare_unsupported(
            $crate::conformance::$suite::$names,
            stringify!($name),
            concat!("unsupported: there is no check `", stringify!($name), "`"),
            concat!("unsupported: the check `", stringify!($name), "` is required of everybody"),
        );)*

        // The arm that matches decides whether a check is declared unsupported.
        macro_rules! __conformance_test {
            $(($d need:ident $name) => {
                $crate::__conformance_test_of! { $suite $name $reason }
            };)*
            $(($missing $d check:ident) => {
                $crate::__conformance_test_of! { $suite $d check "the lock has no nodes" }
            };)?
            ($d need:ident $d check:ident) => {
                $crate::__conformance_test_of! { $suite $d check }
            };
        }
        macro_rules! __conformance_each {
            ($d ($d need:ident $d rule:ident $d module:ident :: $d check:ident,)*) => {
                $d (__conformance_test! { $d need $d check })*
            };
        }
        $crate::$list! { __conformance_each }
    };
}

/// Makes the test of one check.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test_of {
    ($suite:ident $check:ident $($reason:literal)?) => {
        #[test]
        $(#[ignore = $reason])?
        fn $check() {
            $crate::conformance::$suite::test(
                __harness(),
                $crate::conformance::TestCase {
                    module: module_path!(),
                    name: stringify!($check),
                    unsupported: $crate::__conformance_reason!($($reason)?),
                },
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_reason {
    () => {
        None
    };
    ($reason:literal) => {
        Some($reason)
    };
}
