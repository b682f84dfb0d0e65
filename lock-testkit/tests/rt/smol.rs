//! The runtime that a backend's tests run on: smol. `tokio.rs` has the same for tokio.
//!
//! A test runs on its own thread, tasks on smol's global executor.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    unused_macros
)]
#![allow(clippy::unwrap_used)]

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::StreamExt;
use futures::future::{AbortHandle, Abortable, Aborted, FutureExt};
use futures::stream::FuturesUnordered;
use lock_testkit::conformance::SmolDriver;
pub use macro_rules_attribute::apply;
pub use smol::block_on;
pub use smol::future::yield_now;

/// `#[apply(async_test!)]` makes a test of an `async fn`.
macro_rules! async_test {
    ($(#[$attribute:meta])* async fn $name:ident() $body:block) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            smol::block_on(async $body)
        }
    };
}

/// Tests whose subject only tokio has: a runtime that ends, a clock that can be paused.
macro_rules! on_tokio {
    ($($item:item)*) => {};
}

pub(crate) use async_test;
pub(crate) use async_test as async_test_on_threads;
pub(crate) use on_tokio;

/// What the conformance suites run on.
pub fn driver() -> SmolDriver {
    SmolDriver::new()
}

/// For nodes in the same process.
pub fn driver_in_memory() -> SmolDriver {
    SmolDriver::new()
}

/// None: smol does not count its tasks. Tests see on keys, commands and connections what is left.
pub fn tasks() -> usize {
    0
}

pub async fn sleep(duration: Duration) {
    smol::Timer::after(duration).await;
}

#[derive(Debug)]
pub struct Elapsed;

pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let future = async { Ok(future.await) };
    let timer = async {
        sleep(limit).await;
        Err(Elapsed)
    };
    smol::future::or(future, timer).await
}

/// Waits until the process is told to end, from now on without ending it.
pub fn told_to_end() -> impl Future<Output = ()> {
    let mut terminate = async_signal::Signals::new([async_signal::Signal::Term]).unwrap();
    async move {
        terminate.next().await;
    }
}

/// What came of a task: it may have panicked, and it may have been aborted.
type Ended<T> = Result<std::thread::Result<T>, Aborted>;

/// A task, which goes on when this is dropped.
pub struct JoinHandle<T> {
    task: Option<smol::Task<Ended<T>>>,
    abort: AbortHandle,
}

/// Why a task has no output.
#[derive(Debug)]
pub enum JoinError {
    Panicked(Box<dyn Any + Send>),
    Aborted,
}

impl JoinError {
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

pub fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (abort, registration) = AbortHandle::new_pair();
    let task = AssertUnwindSafe(task).catch_unwind();
    JoinHandle {
        task: Some(smol::spawn(Abortable::new(task, registration))),
        abort,
    }
}

pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn(smol::unblock(work))
}

impl<T> JoinHandle<T> {
    pub fn abort(&self) {
        self.abort.abort();
    }

    pub fn is_finished(&self) -> bool {
        self.task.as_ref().unwrap().is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.task.as_mut().unwrap().poll_unpin(cx));
        Poll::Ready(match ended {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(panic)) => Err(JoinError::Panicked(panic)),
            Err(Aborted) => Err(JoinError::Aborted),
        })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

/// Tasks that are aborted when this is dropped.
pub struct JoinSet<T> {
    tasks: FuturesUnordered<JoinHandle<T>>,
}

impl<T: Send + 'static> JoinSet<T> {
    pub fn new() -> Self {
        Self {
            tasks: FuturesUnordered::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        let task = spawn(task);
        let abort = task.abort.clone();
        self.tasks.push(task);
        abort
    }

    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.tasks.next().await
    }

    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::new();
        while let Some(output) = self.join_next().await {
            outputs.push(output.unwrap());
        }
        outputs
    }

    pub async fn shutdown(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        while self.join_next().await.is_some() {}
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
