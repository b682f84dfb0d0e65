//! Distributed locks over the [`redis`] crate: a [`RedisNode`](lock_core::RedisNode) for one
//! server.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use lock_core::{Command, RedisNode};
//! use lock_redis_rs::RedisRsNode;
//!
//! # async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
//! let node = RedisRsNode::new("redis://user:password@redis-1.internal:6379/?protocol=resp3")?
//!     .connect_timeout(Duration::from_millis(500));
//! // Usually a `Redlock` over several such nodes does this.
//! let reply = node.execute(&command, Duration::from_millis(100)).await?;
//! println!("{}: {reply:?}", node.label());
//! # Ok(())
//! # }
//! ```
//!
//! # What the server has to allow
//!
//! `SET`, `GET`, `PTTL`, `PEXPIRE`, `DEL`, `EVAL` and `EVALSHA` on the keys of the locks:
//!
//! ```text
//! ACL SETUSER locks on >password ~lock:* +set +get +pttl +pexpire +del +eval +evalsha
//! ```
//!
//! `SELECT` too, if the URL names a database other than 0. While connecting, redis-rs also sends
//! `CLIENT SETINFO`, which may be denied, and, only with `protocol=resp3`, `HELLO`, which a proxy
//! may not know: RESP2, the default, does without.
//!
//! # What to expect of the connection
//!
//! - It is opened at the first call. While the server is away, calls fail fast with
//!   [`NotSent`](lock_core::node::NodeErrorKind::NotSent) and the cause. Calls alone make it try
//!   again, after pauses of 250 ms at most.
//! - Calls that find a connect running wait for it, for no longer than they may take, and leave in
//!   their order.
//! - After three calls in a row without an answer it is replaced. The releases that belong behind
//!   acquires of unknown fate are sent on the old one first.
//! - No command is ever sent twice.
//! - It belongs to the runtime of the call that opened it, and serves calls from everywhere. When
//!   that runtime ends, the next call opens another. A tokio runtime needs its timers and IO enabled.
//!
//! All calls share the connection, as they share the server: a command of anybody's that keeps
//! Redis busy keeps every lock on it waiting.
//!
//! # Features
//!
//! One of the two runtimes is needed:
//!
//! - `tokio`, on by default, serves callers on a tokio runtime, and switches `lock-core/tokio` on.
//!   A call from elsewhere is an error, unless a tokio runtime runs the connection already.
//! - `smol` serves callers on any executor, and on plain threads with
//!   [`ThreadRuntime::block_on`](lock_core::runtime::ThreadRuntime::block_on). Locks are extended
//!   and released in the background on `lock-core`'s `ThreadRuntime`.
//!
//!   The connection is run by smol's global executor: a thread that starts with the first call and
//!   stays (or as many as `SMOL_THREADS` says, which must not be 0), beside that of smol's reactor.
//!   What you give to `smol::spawn` shares it, so a task that blocks there stalls every connection;
//!   whatever else of yours blocks does no harm. tokio's runtime is not linked, only those parts of
//!   tokio that redis-rs uses everywhere. redis-rs also brings `smol-timeout`, under the MPL-2.0.
//!
//! With both, callers on tokio are served by tokio and all others by smol, over one connection.
//! On tokio that costs nothing more.
//!
//! ```toml
//! lock-redis-rs = { version = "0.1", default-features = false, features = ["smol"] }
//! ```
//!
//! For TLS (`rediss://`), switch `tokio-rustls-comp` or `tokio-native-tls-comp` of `redis` on, or
//! the same for `smol`.

mod invalid_url;

pub use invalid_url::InvalidUrl;

cfg_if::cfg_if! {
    if #[cfg(any(feature = "tokio", feature = "smol"))] {
        mod backoff;
        mod connector;
        mod convert;
        mod dial;
        mod driver;
        mod exchange;
        mod lent;
        mod link;
        mod node;
        mod nudge;
        mod queue;
        mod rt;
        mod watch;

        pub use node::RedisRsNode;
    } else {
        compile_error!(
            "lock-redis-rs needs an async runtime: switch its feature `tokio` or `smol` on"
        );
    }
}

/// Locks a mutex whose holders leave it in order even if they panic.
#[cfg(any(feature = "tokio", feature = "smol"))]
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
