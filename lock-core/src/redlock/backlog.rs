//! Work in the background that is done bit by bit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::runtime::{BoxFuture, Runtime};
use crate::sync::locked;

/// How many tasks run at a time. A client has room for more calls than these make, and a server answers so
/// many within the time that each may take.
const AT_ONCE: usize = 1024;

/// Tasks beyond a number wait until others have ended, so that a burst of them does not meet the bounds of
/// a client.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: VecDeque<(Arc<dyn Runtime>, BoxFuture<'static, ()>)>,
    /// Somebody is busy with it: a task that ends at once leaves the next one to it.
    is_starting: bool,
}

/// The place of a running task, which ends with it.
struct Place(Arc<Backlog>);

impl Backlog {
    /// Runs the task in the background, at once or as soon as there is room.
    pub(crate) fn run(
        self: &Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let waiting = (Arc::clone(runtime), Box::pin(task) as _);
        locked(&self.state).waiting.push_back(waiting);
        self.start();
    }

    fn start(self: &Arc<Self>) {
        while let Some((runtime, task)) = self.next() {
            let place = Place(Arc::clone(self));
            // A runtime that has ended drops it here.
            runtime.spawn(Box::pin(async move {
                task.await;
                drop(place);
            }));
            locked(&self.state).is_starting = false;
        }
    }

    /// The next task that may run, which the caller is to start then.
    fn next(&self) -> Option<(Arc<dyn Runtime>, BoxFuture<'static, ()>)> {
        let mut state = locked(&self.state);
        if state.is_starting || state.running >= AT_ONCE {
            return None;
        }
        let next = state.waiting.pop_front()?;
        state.is_starting = true;
        state.running += 1;
        Some(next)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.0.state).running -= 1;
        self.0.start();
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("running", &self.running)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::channel::oneshot;
    use futures::executor::block_on;

    use super::*;
    use crate::runtime::ThreadRuntime;

    #[test]
    fn tasks_beyond_a_number_wait_and_each_runs_once() {
        let backlog = Arc::new(Backlog::default());
        let runtime: Arc<dyn Runtime> = ThreadRuntime::shared();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut ends = Vec::new();
        for _ in 0..3 * AT_ONCE {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            let (sender, end) = oneshot::channel();
            ends.push(end);
            backlog.run(&runtime, async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                ThreadRuntime::shared()
                    .sleep(std::time::Duration::from_millis(1))
                    .await;
                running.fetch_sub(1, Ordering::SeqCst);
                sender.send(()).ok();
            });
        }
        for end in ends {
            assert_eq!(block_on(end), Ok(()));
        }
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE);
    }

    /// A runtime that has ended.
    #[derive(Debug)]
    struct Ended;

    impl Runtime for Ended {
        fn now(&self) -> std::time::Duration {
            ThreadRuntime::shared().now()
        }

        fn system_time(&self) -> std::time::SystemTime {
            ThreadRuntime::shared().system_time()
        }

        fn random(&self) -> [u8; 16] {
            ThreadRuntime::shared().random()
        }

        fn sleep(&self, duration: std::time::Duration) -> BoxFuture<'static, ()> {
            ThreadRuntime::shared().sleep(duration)
        }

        fn spawn(&self, task: BoxFuture<'static, ()>) {
            drop(task);
        }
    }

    #[test]
    fn tasks_of_a_runtime_that_has_ended_are_dropped_and_hold_up_nobody() {
        let backlog = Arc::new(Backlog::default());
        let (alive, ended): (Arc<dyn Runtime>, Arc<dyn Runtime>) =
            (ThreadRuntime::shared(), Arc::new(Ended));
        let (go, waits) = oneshot::channel::<()>();
        let waits = futures::FutureExt::shared(waits);
        for _ in 0..AT_ONCE {
            let waits = waits.clone();
            backlog.run(&alive, async move { waits.await.unwrap() });
        }
        // Enough for the stack, were each started from the end of the one before it.
        for _ in 0..100_000 {
            backlog.run(&ended, async {});
        }
        let (sender, end) = oneshot::channel();
        backlog.run(&alive, async move { sender.send(()).unwrap() });
        go.send(()).unwrap();
        assert_eq!(block_on(end), Ok(()));
    }
}
