//! Work that begins a while later, if it is still of use then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::runtime::Runtime;
use crate::sync::locked;

/// How much later the work begins.
const DELAY: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce() + Send>;

/// What waits, in the order in which it was added. One task waits for all of it, since most is of no use any more when
/// its time has come: a task for each would cost more than the work.
#[derive(Default)]
pub(crate) struct Delays {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Duration, Job)>,
    is_served: bool,
}

/// The one task. If its runtime ends, the next job brings another one.
struct Server {
    delays: Arc<Delays>,
    runtime: Arc<dyn Runtime>,
    is_done: bool,
}

impl Delays {
    /// Runs the job after the delay, on this runtime or another one that waits already.
    pub(crate) fn add(
        self: &Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        job: impl FnOnce() + Send + 'static,
    ) {
        let due = runtime.now().saturating_add(DELAY);
        let is_served = {
            let mut state = locked(&self.state);
            state.waiting.push_back((due, Box::new(job)));
            std::mem::replace(&mut state.is_served, true)
        };
        if !is_served {
            let server = Server {
                delays: Arc::clone(self),
                runtime: Arc::clone(runtime),
                is_done: false,
            };
            runtime.spawn(Box::pin(server.run()));
        }
    }
}

impl Server {
    async fn run(mut self) {
        while let Some(due) = self.next() {
            // Another runtime's clock may be far ahead.
            let left = due.saturating_sub(self.runtime.now()).min(DELAY);
            self.runtime.sleep(left).await;
            let job = locked(&self.delays.state).waiting.pop_front();
            // Foreign code, which must not run under the mutex.
            if let Some((_, job)) = job {
                job();
            }
        }
    }

    /// When the next job is due. Without one, the task ends.
    fn next(&mut self) -> Option<Duration> {
        let mut state = locked(&self.delays.state);
        let due = state.waiting.front().map(|(due, _)| *due);
        self.is_done = due.is_none();
        state.is_served = due.is_some();
        due
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_done {
            locked(&self.delays.state).is_served = false;
        }
    }
}

impl std::fmt::Debug for Delays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = locked(&self.state).waiting.len();
        write!(f, "Delays({waiting})")
    }
}
