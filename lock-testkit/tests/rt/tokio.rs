//! The runtime that a backend's tests run on: tokio. `smol.rs` has the same for smol.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    unused_macros
)]
#![allow(clippy::unwrap_used)]

use std::future::Future;

use lock_testkit::conformance::TokioDriver;
pub use macro_rules_attribute::apply;
pub use tokio::spawn;
pub use tokio::task::{JoinHandle, JoinSet, spawn_blocking, yield_now};
pub use tokio::time::{sleep, timeout};

/// `#[apply(async_test!)]` makes a test of an `async fn`.
macro_rules! async_test {
    ($($test:tt)*) => {
        #[tokio::test]
        $($test)*
    };
}

/// The same with tasks on threads of their own.
macro_rules! async_test_on_threads {
    ($($test:tt)*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $($test)*
    };
}

/// Tests whose subject only tokio has: a runtime that ends, a clock that can be paused.
macro_rules! on_tokio {
    ($($item:item)*) => { $($item)* };
}

pub(crate) use {async_test, async_test_on_threads, on_tokio};

/// What the conformance suites run on.
pub fn driver() -> TokioDriver {
    TokioDriver::multi_thread()
}

/// For nodes in the same process: timers take no time.
pub fn driver_in_memory() -> TokioDriver {
    TokioDriver::paused()
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// How many tasks there are on the caller's runtime.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// Waits until the process is told to end, from now on without ending it.
pub fn told_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate()).unwrap();
    async move {
        terminate.recv().await;
    }
}
