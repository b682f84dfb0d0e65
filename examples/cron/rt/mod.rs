//! What this program needs of an async runtime: tokio, or smol in a build without tokio.

cfg_if::cfg_if! {
    if #[cfg(feature = "tokio")] {
        mod tokio;
        use self::tokio as chosen;
    } else if #[cfg(feature = "redis-rs-smol")] {
        mod smol;
        use self::smol as chosen;
    } else {
        compile_error!(
            "this program needs a runtime: the feature `redis-rs-smol` for smol; `redis-rs`, `fred` \
             or `tokio` for tokio"
        );
    }
}

pub(crate) use chosen::*;
