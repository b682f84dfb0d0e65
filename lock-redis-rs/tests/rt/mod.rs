//! The runtime that the tests run on: tokio, or smol in a build with that feature alone.

cfg_if::cfg_if! {
    if #[cfg(feature = "tokio")] {
        #[path = "../../../lock-testkit/tests/rt/tokio.rs"]
        mod chosen;
    } else {
        #[path = "../../../lock-testkit/tests/rt/smol.rs"]
        mod chosen;
    }
}

#[allow(unused_imports)]
pub(crate) use chosen::*;
