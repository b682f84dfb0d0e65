//! The runtime of a node that was given none.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::channel::oneshot;
use lock_core::runtime::{BoxFuture, Runtime};

/// A stopgap until `lock_core::runtime::ambient` is there, whose call then is this function's whole
/// body. It lives on the system's clock.
pub(super) fn ambient() -> Arc<dyn Runtime> {
    Arc::new(SystemClock)
}

#[derive(Debug)]
struct SystemClock;

impl Runtime for SystemClock {
    fn now(&self) -> Duration {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        // A node draws no tokens.
        [0; 16]
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (done, wait) = oneshot::channel::<()>();
        thread::spawn(move || {
            thread::sleep(duration);
            // Dropping it wakes the sleeper.
            drop(done);
        });
        Box::pin(wait.map(|_woken| ()))
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {
        // A node has no tasks.
    }
}
