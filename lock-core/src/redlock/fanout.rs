//! The one way to ask nodes: calls go out, answers come in until the operation is decided, and what
//! is not waited for is driven to its end in the background.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::calls::{Calls, Done};
use super::protocol::{NodeSet, Step};
use crate::runtime::{BoxFuture, Runtime};

/// An operation on the nodes of a lock: whom it asks, and what it makes of the answers.
pub(crate) trait Operation {
    type Verdict;

    /// What to do next, by what is known.
    fn step(&self) -> Step<Self::Verdict>;

    /// Adds the calls to these nodes, or takes note why one is not asked.
    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls);

    /// Takes an answer, and adds the calls that must follow it.
    fn take(&mut self, done: Done, calls: &mut Calls);

    /// Gives up nodes that took too long. By default none ever does.
    fn pass_time(&mut self, _now: Duration, _calls: &mut Calls) {}

    /// The operation ends, decided or not, perhaps with calls under way. Adds the calls that must
    /// follow, and says what becomes of the answers that nobody waits for: by default they are dropped.
    fn leave(&mut self, _calls: &mut Calls) -> Rest {
        Box::new(|_, _| ())
    }
}

/// Takes the answers that nobody waits for, and adds the calls that must follow them.
pub(crate) type Rest = Box<dyn FnMut(Done, &mut Calls) + Send>;

/// An operation under way.
///
/// A call is never dropped half-way, as it might take effect behind its own release: what is left
/// when this is dropped goes on in the background.
pub(crate) struct FanOut<O: Operation> {
    pub(crate) operation: O,
    calls: Calls,
    runtime: Arc<dyn Runtime>,
    /// What the clock shows, as long as nothing was waited for.
    now: Option<Duration>,
    timer: Option<Timer>,
}

struct Timer {
    due: Duration,
    sleep: BoxFuture<'static, ()>,
}

impl<O: Operation> FanOut<O> {
    /// An operation that begins at `now`.
    pub(crate) fn new(operation: O, runtime: &Arc<dyn Runtime>, now: Duration) -> Self {
        Self {
            operation,
            calls: Calls::default(),
            runtime: Arc::clone(runtime),
            now: Some(now),
            timer: None,
        }
    }

    /// Asks, and takes answers, until the outcome is certain.
    ///
    /// Cancel safe: it can be called again.
    pub(crate) async fn decide(&mut self) -> O::Verdict {
        loop {
            match self.operation.step() {
                Step::Decided(verdict) => return verdict,
                Step::Ask(nodes) => match self.now {
                    Some(now) => self.operation.ask(nodes, now, &mut self.calls),
                    None => self.catch_up().await,
                },
                Step::Wait(until) => match self.next(until).await {
                    Some(done) => {
                        self.now = None;
                        self.operation.take(done, &mut self.calls);
                    }
                    None => {
                        let now = self.runtime.now().max(until);
                        self.now = Some(now);
                        self.operation.pass_time(now, &mut self.calls);
                    }
                },
            }
        }
    }

    /// Takes the answers that have come, however late this is polled, and then lets time pass.
    async fn catch_up(&mut self) {
        self.take_ready().await;
        let now = self.runtime.now();
        self.now = Some(now);
        self.operation.pass_time(now, &mut self.calls);
    }

    /// Sends what was added and not sent yet, and takes the answers that have come, without waiting
    /// for any. What the caller sends next comes behind it.
    pub(crate) async fn take_ready(&mut self) {
        while let Some(done) = self.calls.next_ready().await {
            self.operation.take(done, &mut self.calls);
        }
    }

    /// Takes answers as long as this is true, there are calls, and `until` is not reached.
    pub(crate) async fn finish_while(&mut self, is_open: impl Fn(&O) -> bool, until: Duration) {
        self.now = None;
        while is_open(&self.operation) && !self.calls.is_empty() {
            let Some(done) = self.next(until).await else {
                return;
            };
            self.operation.take(done, &mut self.calls);
        }
    }

    /// Drives all calls to their end.
    pub(crate) async fn finish(&mut self) {
        while let Some(done) = self.calls.next().await {
            self.operation.take(done, &mut self.calls);
        }
    }

    /// Has the operation add calls.
    pub(crate) fn add(&mut self, calls: impl FnOnce(&mut O, &mut Calls)) {
        calls(&mut self.operation, &mut self.calls);
    }

    /// The next call that ends, or `None` when the runtime's clock reaches `until` before.
    async fn next(&mut self, until: Duration) -> Option<Done> {
        poll_fn(|cx| match self.calls.poll_next(cx) {
            Poll::Ready(Some(done)) => Poll::Ready(Some(done)),
            _ => self.poll_timer(cx, until).map(|()| None),
        })
        .await
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Duration) -> Poll<()> {
        loop {
            let timer = match &mut self.timer {
                // An earlier one is used up first: most rounds end before any timer.
                Some(timer) if timer.due <= until => timer,
                timer => {
                    let now = self.now.unwrap_or_else(|| self.runtime.now());
                    let sleep = self.runtime.sleep(until.saturating_sub(now));
                    timer.insert(Timer { due: until, sleep })
                }
            };
            ready!(Pin::new(&mut timer.sleep).poll(cx));
            let due = timer.due;
            self.timer = None;
            self.now = None;
            if due >= until {
                return Poll::Ready(());
            }
        }
    }
}

impl<O: Operation> Drop for FanOut<O> {
    fn drop(&mut self) {
        let mut rest = self.operation.leave(&mut self.calls);
        if self.calls.is_empty() {
            return;
        }
        let mut calls = self.calls.take();
        self.runtime.spawn(Box::pin(async move {
            while let Some(done) = calls.next().await {
                rest(done, &mut calls);
            }
        }));
    }
}
