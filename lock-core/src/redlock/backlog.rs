//! Work in the background that is done bit by bit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::runtime::{BoxFuture, Home, Runtime};
use crate::sync::locked;

/// How many tasks run at a time on one runtime. A client has room for more calls than these make, and a
/// server answers so many within the time that each may take.
const AT_ONCE: usize = 1024;

/// Tasks beyond a number wait until others have ended, so that a burst of them does not meet the bounds of
/// a client. Each runtime has a number of its own: one that stands still holds up nobody else.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    lanes: Mutex<HashMap<Home, Lane>>,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<(Arc<dyn Runtime>, BoxFuture<'static, ()>)>,
    /// Somebody is busy with it: a task that ends at once leaves the next one to it.
    is_starting: bool,
}

/// The place of a running task, which ends with it.
struct Place {
    backlog: Arc<Backlog>,
    home: Home,
}

impl Backlog {
    /// Runs the task in the background, at once or as soon as there is room.
    pub(crate) fn run(
        self: &Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        home: Home,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let waiting = (Arc::clone(runtime), Box::pin(task) as _);
        let mut lanes = locked(&self.lanes);
        lanes.entry(home).or_default().waiting.push_back(waiting);
        drop(lanes);
        self.start(home);
    }

    fn start(self: &Arc<Self>, home: Home) {
        while let Some((runtime, task)) = self.next(home) {
            let place = Place {
                backlog: Arc::clone(self),
                home,
            };
            // A runtime that has ended drops it here.
            runtime.spawn(Box::pin(async move {
                task.await;
                drop(place);
            }));
            self.change(home, |lane| lane.is_starting = false);
        }
    }

    /// The next task that may run, which the caller is to start then.
    fn next(&self, home: Home) -> Option<(Arc<dyn Runtime>, BoxFuture<'static, ()>)> {
        self.change(home, |lane| {
            if lane.is_starting || lane.running >= AT_ONCE {
                return None;
            }
            let next = lane.waiting.pop_front()?;
            lane.is_starting = true;
            lane.running += 1;
            Some(next)
        })
    }

    /// Changes a lane. One that has nothing to do is forgotten.
    fn change<T>(&self, home: Home, change: impl FnOnce(&mut Lane) -> T) -> T {
        let mut lanes = locked(&self.lanes);
        let lane = lanes.entry(home).or_default();
        let told = change(lane);
        if lane.running == 0 && lane.waiting.is_empty() && !lane.is_starting {
            lanes.remove(&home);
        }
        told
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.backlog.change(self.home, |lane| lane.running -= 1);
        self.backlog.start(self.home);
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
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
    use crate::runtime::{AmbientId, ThreadRuntime};

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
            backlog.run(&runtime, None, async move {
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

    /// A runtime that runs no task: it has ended, and drops them, or stands still, and keeps them.
    #[derive(Default)]
    struct Idle {
        stands_still: bool,
        kept: Mutex<Vec<BoxFuture<'static, ()>>>,
    }

    impl std::fmt::Debug for Idle {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Idle")
        }
    }

    impl Runtime for Idle {
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
            if self.stands_still {
                locked(&self.kept).push(task);
            }
        }
    }

    #[test]
    fn tasks_of_a_runtime_that_has_ended_are_dropped_and_hold_up_nobody() {
        let backlog = Arc::new(Backlog::default());
        let (alive, ended): (Arc<dyn Runtime>, Arc<dyn Runtime>) =
            (ThreadRuntime::shared(), Arc::new(Idle::default()));
        let (go, waits) = oneshot::channel::<()>();
        let waits = futures::FutureExt::shared(waits);
        for _ in 0..AT_ONCE {
            let waits = waits.clone();
            backlog.run(&alive, None, async move { waits.await.unwrap() });
        }
        // Enough for the stack, were each started from the end of the one before it.
        for _ in 0..100_000 {
            backlog.run(&ended, None, async {});
        }
        let (sender, end) = oneshot::channel();
        backlog.run(&alive, None, async move { sender.send(()).unwrap() });
        go.send(()).unwrap();
        assert_eq!(block_on(end), Ok(()));
    }

    #[test]
    fn a_runtime_that_stands_still_holds_up_no_task_of_another() {
        let backlog = Arc::new(Backlog::default());
        let stalled = Arc::new(Idle {
            stands_still: true,
            ..Idle::default()
        });
        let dyn_stalled: Arc<dyn Runtime> = Arc::clone(&stalled) as _;
        for _ in 0..2 * AT_ONCE {
            backlog.run(&dyn_stalled, None, async {});
        }
        assert_eq!(locked(&stalled.kept).len(), AT_ONCE);
        let alive: Arc<dyn Runtime> = ThreadRuntime::shared();
        let (sender, end) = oneshot::channel();
        backlog.run(&alive, Some(AmbientId::Thread), async move {
            sender.send(()).unwrap();
        });
        assert_eq!(block_on(end), Ok(()));
    }
}
