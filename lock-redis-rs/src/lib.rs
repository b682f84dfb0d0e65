//! A [`RedisNode`](lock_core::RedisNode) on the `redis` crate.

#[cfg(not(feature = "tokio"))]
compile_error!("lock-redis-rs needs an async runtime: enable its feature `tokio`");

#[cfg(feature = "tokio")]
mod backoff;
#[cfg(feature = "tokio")]
mod connector;
#[cfg(feature = "tokio")]
mod convert;
#[cfg(feature = "tokio")]
mod dial;
#[cfg(feature = "tokio")]
mod exchange;
mod invalid_url;
#[cfg(feature = "tokio")]
mod lent;
#[cfg(feature = "tokio")]
mod link;
#[cfg(feature = "tokio")]
mod node;
#[cfg(feature = "tokio")]
mod queue;
#[cfg(feature = "tokio")]
mod watch;

pub use invalid_url::InvalidUrl;
#[cfg(feature = "tokio")]
pub use node::RedisRsNode;

/// Locks a mutex whose holders never panic half-way through a change.
#[cfg(feature = "tokio")]
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
