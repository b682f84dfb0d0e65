//! The async runtimes that run checks.

use std::fmt::Debug;
use std::sync::Arc;

use lock_core::Runtime;
use lock_core::runtime::{BoxFuture, ThreadRuntime};

/// The async runtime on which checks run, together with the nodes and locks that they check.
///
/// Implement it for a client that needs a runtime other than those here.
pub trait Driver: Debug + Send + Sync + 'static {
    /// Runs a check to its end, in the context of a runtime that was started for it.
    ///
    /// The runtime may be used again. Background tasks of the check need not outlive it.
    fn block_on(&self, check: BoxFuture<'_, ()>);

    /// Returns the runtime's timers, tasks and clock. Called inside [`block_on`](Self::block_on).
    fn runtime(&self) -> Arc<dyn Runtime>;
}

/// Runs checks without an async runtime: on the calling thread, with timers and background tasks on
/// the [`ThreadRuntime`] of `lock-core`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ThreadDriver;

impl ThreadDriver {
    /// The driver.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Driver for ThreadDriver {
    fn block_on(&self, check: BoxFuture<'_, ()>) {
        futures::executor::block_on(check);
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        ThreadRuntime::shared()
    }
}

#[cfg(feature = "tokio")]
pub use with_tokio::TokioDriver;

#[cfg(feature = "tokio")]
mod with_tokio {
    use std::sync::Arc;

    use lock_core::Runtime;
    use lock_core::runtime::{BoxFuture, ambient};
    use tokio::runtime::Builder;

    use super::Driver;

    /// Runs each check on a tokio runtime of its own.
    #[derive(Clone, Debug)]
    pub struct TokioDriver {
        kind: Kind,
    }

    #[derive(Clone, Copy, Debug)]
    enum Kind {
        MultiThread,
        CurrentThread,
        Paused,
    }

    impl TokioDriver {
        /// A multi-thread runtime with two workers.
        #[must_use]
        pub fn multi_thread() -> Self {
            Self {
                kind: Kind::MultiThread,
            }
        }

        /// A current-thread runtime.
        #[must_use]
        pub fn current_thread() -> Self {
            Self {
                kind: Kind::CurrentThread,
            }
        }

        /// A current-thread runtime whose clock is paused, so that timers take no time. It is not for
        /// anything that talks to a real server.
        #[must_use]
        pub fn paused() -> Self {
            Self { kind: Kind::Paused }
        }
    }

    impl Driver for TokioDriver {
        fn block_on(&self, check: BoxFuture<'_, ()>) {
            let runtime = match self.kind {
                Kind::MultiThread => Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build(),
                Kind::CurrentThread => Builder::new_current_thread().enable_all().build(),
                Kind::Paused => Builder::new_current_thread()
                    .enable_all()
                    .start_paused(true)
                    .build(),
            };
            match runtime {
                Ok(runtime) => runtime.block_on(check),
                // This belongs to a test, and a test fails by panicking.
                Err(error) => panic!("cannot start a tokio runtime: {error}"),
            }
        }

        fn runtime(&self) -> Arc<dyn Runtime> {
            ambient()
        }
    }
}

#[cfg(feature = "smol")]
pub use with_smol::SmolDriver;

#[cfg(feature = "smol")]
mod with_smol {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use lock_core::Runtime;
    use lock_core::runtime::{BoxFuture, ThreadRuntime};

    use super::Driver;

    /// Runs checks on smol's global executor, with its timers.
    #[derive(Clone, Copy, Debug, Default)]
    #[non_exhaustive]
    pub struct SmolDriver;

    impl SmolDriver {
        /// The driver.
        #[must_use]
        pub fn new() -> Self {
            Self
        }
    }

    impl Driver for SmolDriver {
        fn block_on(&self, check: BoxFuture<'_, ()>) {
            smol::block_on(check);
        }

        fn runtime(&self) -> Arc<dyn Runtime> {
            Arc::new(SmolRuntime {
                clock: ThreadRuntime::shared(),
            })
        }
    }

    #[derive(Debug)]
    struct SmolRuntime {
        clock: Arc<dyn Runtime>,
    }

    impl Runtime for SmolRuntime {
        fn now(&self) -> Duration {
            self.clock.now()
        }

        fn system_time(&self) -> SystemTime {
            self.clock.system_time()
        }

        fn random(&self) -> [u8; 16] {
            self.clock.random()
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            let timer = smol::Timer::after(duration);
            Box::pin(async move {
                timer.await;
            })
        }

        fn spawn(&self, task: BoxFuture<'static, ()>) {
            smol::spawn(task).detach();
        }
    }
}
