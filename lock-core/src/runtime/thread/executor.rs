//! The ready tasks, the timers, and the thread that serves both.

use super::block_on::Taken;
use super::task::Task;
use crate::runtime::{BoxFuture, boottime};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// How long an idle thread waits for more work before it ends.
const LINGER: Duration = Duration::from_secs(10);

/// The longest wait for a timer. The condition variable's clock stops while the system is suspended
/// and the timers' clock does not, so a long wait is cut into pieces, to look at the latter.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How the thread is started; tests make it fail.
type Start = fn(Arc<Executor>) -> io::Result<()>;

/// A queue of ready tasks and a map of timers, served by at most one thread.
///
/// The lock protects plain data only: no waker or task is called, cloned or dropped under it,
/// since any of these can run foreign code that comes back here.
pub(super) struct Executor {
    state: Mutex<State>,
    work: Condvar,
    start: Start,
    linger: Duration,
}

struct State {
    ready: VecDeque<Arc<Task>>,
    timers: BTreeMap<TimerKey, Waker>,
    next_timer: u64,
    thread: Thread,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thread {
    Absent,
    /// It will look at the queues before it waits, so it needs no signal.
    Awake,
    Waiting,
}

/// When a timer is due, and a number that distinguishes it from others that are due at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    deadline: Duration,
    number: u64,
}

impl Executor {
    pub(super) fn new() -> Arc<Self> {
        Self::with(start_thread, LINGER)
    }

    pub(super) fn with(start: Start, linger: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                timers: BTreeMap::new(),
                next_timer: 0,
                thread: Thread::Absent,
            }),
            work: Condvar::new(),
            start,
            linger,
        })
    }

    pub(super) fn spawn(self: &Arc<Self>, future: BoxFuture<'static, ()>) {
        self.schedule(Task::new(Arc::clone(self), future));
    }

    /// Queues a task to be polled.
    pub(super) fn schedule(self: &Arc<Self>, task: Arc<Task>) {
        let mut state = self.lock();
        state.ready.push_back(task);
        self.rouse(state);
    }

    /// Arranges for the waker to be called at the deadline. With the key of an earlier call it replaces
    /// the waker of that call.
    pub(super) fn set_timer(
        self: &Arc<Self>,
        deadline: Duration,
        key: Option<TimerKey>,
        waker: &Waker,
    ) -> TimerKey {
        let waker = waker.clone();
        let mut state = self.lock();
        let key = key.unwrap_or_else(|| state.new_key(deadline));
        let replaced = state.timers.insert(key, waker);
        // The thread waits for the earliest timer, and has no reason to wake for a later one.
        let is_earliest = replaced.is_none() && state.first_deadline() == Some(key.deadline);
        if is_earliest || state.thread == Thread::Absent {
            self.rouse(state);
        } else {
            drop(state);
        }
        drop(replaced);
        key
    }

    pub(super) fn cancel_timer(&self, key: TimerKey) {
        let cancelled = self.lock().timers.remove(&key);
        drop(cancelled);
    }

    /// Makes sure that the thread sees what was queued.
    fn rouse(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        match mem::replace(&mut state.thread, Thread::Awake) {
            Thread::Awake => {}
            Thread::Waiting => {
                drop(state);
                self.work.notify_one();
            }
            Thread::Absent => {
                drop(state);
                if (self.start)(Arc::clone(self)).is_err() {
                    // What was queued stays, and the next use tries again.
                    self.lock().thread = Thread::Absent;
                }
            }
        }
    }

    /// The thread's life. It ends when there has been nothing to do for a while.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let due = state.take_due();
            let ready = mem::take(&mut state.ready);
            if due.is_empty() && ready.is_empty() {
                match self.wait(state) {
                    Some(woken) => state = woken,
                    None => return,
                }
                continue;
            }
            drop(state);
            for waker in due {
                contain(|| waker.wake());
            }
            // Tasks that become ready meanwhile wait for the next turn, after the timers.
            for task in ready {
                contain(|| task.run());
            }
            state = self.lock();
        }
    }

    /// Waits for the next timer or a signal. Returns `None` when the thread may end.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        let first = state.first_deadline();
        let longest = match first {
            Some(deadline) => LONGEST_WAIT.min(deadline.saturating_sub(boottime::now())),
            None => self.linger,
        };
        state.thread = Thread::Waiting;
        let (mut state, wait) = self
            .work
            .wait_timeout(state, longest)
            .unwrap_or_else(PoisonError::into_inner);
        if first.is_none() && wait.timed_out() && state.is_idle() {
            state.thread = Thread::Absent;
            return None;
        }
        state.thread = Thread::Awake;
        Some(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn timer_count(&self) -> usize {
        self.lock().timers.len()
    }

    #[cfg(test)]
    pub(super) fn thread(&self) -> Thread {
        self.lock().thread
    }
}

impl State {
    fn new_key(&mut self, deadline: Duration) -> TimerKey {
        let number = self.next_timer;
        self.next_timer += 1;
        TimerKey { deadline, number }
    }

    fn first_deadline(&self) -> Option<Duration> {
        self.timers.keys().next().map(|key| key.deadline)
    }

    fn take_due(&mut self) -> Vec<Waker> {
        let mut due = Vec::new();
        if self.timers.is_empty() {
            return due;
        }
        let now = boottime::now();
        while let Some(timer) = self.timers.first_entry() {
            if timer.key().deadline > now {
                break;
            }
            due.push(timer.remove());
        }
        due
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.timers.is_empty()
    }
}

pub(super) fn start_thread(executor: Arc<Executor>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("lock-core".to_owned())
        .spawn(move || {
            let _taken = Taken::take();
            executor.run();
        })
        .map(drop)
}

/// Runs foreign code, and returns `None` if it panics: the panic goes no further than the panic hook.
pub(super) fn contain<T>(foreign: impl FnOnce() -> T) -> Option<T> {
    // Whatever it left half done belongs to it and is not used again.
    match catch_unwind(AssertUnwindSafe(foreign)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // The payload is foreign too, and its drop may panic with another payload. That one is
            // leaked, since this could go on for ever.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                mem::forget(another);
            }
            None
        }
    }
}
