//! A runtime that is driven by hand.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use crate::runtime::{BoxFuture, Runtime};
use crate::sync::locked;

#[derive(Default)]
pub(super) struct World {
    state: Mutex<State>,
    ready: Arc<Mutex<Vec<usize>>>,
    polls: AtomicUsize,
}

#[derive(Default)]
struct State {
    now: Duration,
    timers: BTreeMap<(Duration, usize), Arc<Mutex<Timer>>>,
    tasks: Vec<Option<BoxFuture<'static, ()>>>,
    has_ended: bool,
}

#[derive(Default)]
struct Timer {
    is_due: bool,
    waker: Option<Waker>,
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Polls tasks until none is ready.
    pub(super) fn run(&self) {
        loop {
            let ready = std::mem::take(&mut *locked(&self.ready));
            if ready.is_empty() {
                return;
            }
            for number in ready {
                let Some(mut task) = locked(&self.state).tasks[number].take() else {
                    continue;
                };
                self.polls.fetch_add(1, Ordering::SeqCst);
                let waker = self.waker(number);
                let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
                if poll.is_pending() {
                    locked(&self.state).tasks[number] = Some(task);
                }
            }
        }
    }

    /// Lets time pass, and tasks run at each timer.
    pub(super) fn advance(&self, time: Duration) {
        self.run();
        let end = locked(&self.state).now + time;
        while self.next_timer(end) {
            self.run();
        }
    }

    /// Lets time pass while nobody drives the runtime.
    pub(super) fn stand_still(&self, time: Duration) {
        let end = locked(&self.state).now + time;
        while self.next_timer(end) {}
    }

    /// Goes to the next timer up to a moment; `false` if there is none, and the moment has come.
    fn next_timer(&self, end: Duration) -> bool {
        let mut state = locked(&self.state);
        let first = state.timers.first_key_value().map(|(key, _)| *key);
        let Some(key) = first.filter(|(at, _)| *at <= end) else {
            state.now = end;
            return false;
        };
        state.now = state.now.max(key.0);
        let timer = state.timers.remove(&key).unwrap();
        drop(state);
        let mut timer = locked(&timer);
        timer.is_due = true;
        let waker = timer.waker.take();
        drop(timer);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Ends the runtime: its tasks are dropped, and so are those that come later.
    pub(super) fn end(&self) {
        let mut state = locked(&self.state);
        state.has_ended = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(tasks);
    }

    pub(super) fn tasks(&self) -> usize {
        locked(&self.state).tasks.iter().flatten().count()
    }

    /// How often any task was polled.
    pub(super) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    fn waker(&self, task: usize) -> Waker {
        let ready = Arc::clone(&self.ready);
        Waker::from(Arc::new(Ready { task, ready }))
    }
}

struct Ready {
    task: usize,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut ready = locked(&self.ready);
        if !ready.contains(&self.task) {
            ready.push(self.task);
        }
    }
}

impl Runtime for World {
    fn now(&self) -> Duration {
        locked(&self.state).now
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn random(&self) -> [u8; 16] {
        [255; 16]
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let timer = Arc::<Mutex<Timer>>::default();
        let mut state = locked(&self.state);
        match state.now.checked_add(duration) {
            Some(at) if at > state.now => {
                let number = state.timers.len();
                let taken = |number: &usize| state.timers.contains_key(&(at, *number));
                let number = (number..).find(|number| !taken(number)).unwrap();
                state.timers.insert((at, number), Arc::clone(&timer));
            }
            Some(_) => locked(&timer).is_due = true,
            None => {}
        }
        Box::pin(Sleep(timer))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut state = locked(&self.state);
        if state.has_ended {
            drop(state);
            drop(task);
            return;
        }
        state.tasks.push(Some(task));
        let number = state.tasks.len() - 1;
        drop(state);
        self.waker(number).wake();
    }
}

struct Sleep(Arc<Mutex<Timer>>);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = locked(&self.0);
        if timer.is_due {
            return Poll::Ready(());
        }
        timer.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}
