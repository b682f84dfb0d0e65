//! Waiting for a future on a plain thread.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

thread_local! {
    /// Whether this thread belongs to an executor of this crate, or already waits in [`block_on`].
    static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Why [`block_on`](super::ThreadRuntime::block_on) refused to block: the thread runs async tasks,
/// which would stand still meanwhile, perhaps among them the one that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockOnError;

impl fmt::Display for BlockOnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "cannot block this thread, it is inside an async runtime: use `.await`, or block on a \
             thread of its own",
        )
    }
}

impl Error for BlockOnError {}

/// Wakes the thread that waits. It remembers this, because the future may park the thread for its own
/// reasons and use up the token that unparks it.
struct Unpark {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Marks the thread as taken until it is dropped.
pub(super) struct Taken {
    was_taken: bool,
}

impl Taken {
    pub(super) fn take() -> Self {
        let was_taken = IS_TAKEN.with(|is_taken| is_taken.replace(true));
        Self { was_taken }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        IS_TAKEN.with(|is_taken| is_taken.set(self.was_taken));
    }
}

pub(super) fn block_on<F: Future>(future: F) -> Result<F::Output, BlockOnError> {
    if IS_TAKEN.with(Cell::get) || is_inside_tokio() {
        return Err(BlockOnError);
    }
    let _taken = Taken::take();
    let unpark = Arc::new(Unpark {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return Ok(output),
            // A parked thread may wake up spuriously.
            Poll::Pending => {
                while !unpark.is_woken.swap(false, Ordering::SeqCst) {
                    thread::park();
                }
            }
        }
    }
}

fn is_inside_tokio() -> bool {
    cfg_if::cfg_if! {
        if #[cfg(feature = "tokio")] {
            ::tokio::runtime::Handle::try_current().is_ok()
        } else {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::{Runtime, ThreadRuntime};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_plain_thread_waits_for_a_future_that_others_finish() {
        let runtime = ThreadRuntime::shared();
        let before = runtime.now();
        let sleep = async {
            runtime.sleep(20 * MS).await;
            7
        };
        assert_eq!(runtime.block_on(sleep), Ok(7));
        assert!(runtime.now() - before >= 20 * MS);
    }

    #[test]
    fn a_thread_that_runs_futures_is_told_so_instead_of_hanging() {
        let runtime = ThreadRuntime::shared();
        let inner = async { runtime.block_on(async {}) };
        assert_eq!(runtime.block_on(inner), Ok(Err(BlockOnError)));
        assert_eq!(
            runtime.block_on(async {}),
            Ok(()),
            "the thread is free again"
        );

        let (sender, receiver) = std::sync::mpsc::channel();
        let own = ThreadRuntime::shared();
        runtime.spawn(Box::pin(async move {
            sender.send(own.block_on(async {})).unwrap();
        }));
        assert_eq!(receiver.recv().unwrap(), Err(BlockOnError));
    }

    #[test]
    fn a_panic_of_the_future_leaves_the_thread_free() {
        let runtime = ThreadRuntime::shared();
        let panics = || runtime.block_on(async { panic!("on purpose") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(caught.is_err());
        assert_eq!(runtime.block_on(async {}), Ok(()));
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn inside_tokio_it_says_so() {
        let tokio = ::tokio::runtime::Runtime::new().unwrap();
        let runtime = ThreadRuntime::shared();
        let answer = tokio.block_on(async { runtime.block_on(async {}) });
        assert_eq!(answer, Err(BlockOnError));
        assert!(BlockOnError.to_string().contains("inside an async runtime"));
    }
}
