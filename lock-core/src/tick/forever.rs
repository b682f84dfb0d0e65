//! Running a job by its schedule, for as long as a program lives.

use std::any::Any;
use std::fmt::Display;
use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};

use super::claim::TickError;
use super::events;
use super::instant::Tick;
use super::job::TickJob;
use super::run::TickOutcome;
use crate::error::AcquireError;
use crate::lock::DistributedLock;
use crate::runtime::contain;

/// What the body of [`TickJob::run_forever`] may return: nothing, or a `Result`, whose error is told to
/// `tracing`.
pub trait JobResult {
    /// The error in words, if the body failed.
    fn into_error(self) -> Option<String>;
}

impl JobResult for () {
    fn into_error(self) -> Option<String> {
        None
    }
}

impl<T, E: Display> JobResult for Result<T, E> {
    fn into_error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl TickJob {
    /// Runs the job by its schedule: waits for each tick, claims it, and runs `body` if this instance won
    /// the claim.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use lock_core::DistributedLock;
    /// use lock_core::tick::{TickError, TickJob};
    ///
    /// # async fn send_reports() -> Result<(), std::io::Error> { Ok(()) }
    /// async fn reports(locks: &dyn DistributedLock) -> Result<(), Box<dyn std::error::Error>> {
    ///     let job = TickJob::every("reports", Duration::from_secs(60)).no_overlap(true).build()?;
    ///     Ok(job.run_forever(locks, async |_tick| send_reports().await).await?)
    /// }
    /// ```
    ///
    /// The body borrows what it takes from its surroundings, and is an `async |tick|` rather than an
    /// `async move |tick|`; what it changes there needs a mutex or the like.
    ///
    /// What comes of a tick is told to `tracing`: see [what the crate logs](crate#what-it-logs). An
    /// outage, a body that returns an error and one that panics cost their tick and end nothing. (What the
    /// body shares with others may be half done after a panic.) While the body runs, this instance claims
    /// no other tick.
    ///
    /// It returns when the lock was shut down, which it learns from the next tick, or when the schedule has
    /// no more ticks. To end it earlier, drop it, or take [`run_until`](Self::run_until).
    ///
    /// # Errors
    ///
    /// [`TickError`] for a job that can never run: it has no schedule, the lock refuses its name, or its
    /// function tells instants that are not allowed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time. That drops a body that runs, at its current `await`, and its tick is
    /// lost; a claim that was not won yet is given up.
    pub async fn run_forever<L, F>(
        &self,
        locks: &L,
        body: impl FnMut(Tick) -> F,
    ) -> Result<(), TickError>
    where
        L: DistributedLock + ?Sized,
        F: Future<Output: JobResult>,
    {
        self.run_until(pending(), locks, body).await
    }

    /// Does what [`run_forever`](Self::run_forever) does until `stop` is ready, for instance a signal to
    /// the process. A body that runs by then ends first; a claim is given up, and one that is won and waits
    /// for the run of an earlier tick loses its tick.
    ///
    /// # Errors
    ///
    /// Those of `run_forever`.
    ///
    /// # Cancel safety
    ///
    /// That of `run_forever`.
    pub async fn run_until<L, F>(
        &self,
        stop: impl Future<Output = ()>,
        locks: &L,
        mut body: impl FnMut(Tick) -> F,
    ) -> Result<(), TickError>
    where
        L: DistributedLock + ?Sized,
        F: Future<Output: JobResult>,
    {
        let mut ticks = self.ticks()?;
        let mut stop = pin!(stop);
        loop {
            let tick = match select(&mut stop, pin!(ticks.next())).await {
                Either::Left(((), _)) => return Ok(()),
                Either::Right((None, _)) => return Ok(()),
                Either::Right((Some(tick), _)) => tick,
            };
            let has_begun = AtomicBool::new(false);
            let start = || {
                has_begun.store(true, Ordering::Relaxed);
                body(tick)
            };
            let run = self.run(locks, tick, async |_| self.run_body(tick, start).await);
            let Some(outcome) = unless_stopped(run, stop.as_mut(), &has_begun).await else {
                return Ok(());
            };
            match outcome {
                Ok(TickOutcome::Unavailable(AcquireError::ShutDown)) => return Ok(()),
                Ok(outcome) => self.tell(tick, outcome),
                // The clock was set back since the tick was found to be due.
                Err(error @ TickError::TooFarInFuture { .. }) => {
                    events::tick_not_run(self.name(), tick, &error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs the body, and tells how it ended.
    async fn run_body<F>(&self, tick: Tick, start: impl FnOnce() -> F)
    where
        F: Future<Output: JobResult>,
    {
        let runtime = self.runtime();
        let begun = runtime.now();
        let body = async { start().await.into_error() };
        let ended = AssertUnwindSafe(body).catch_unwind().await;
        let took = runtime.now().saturating_sub(begun);
        match ended {
            Ok(None) => events::tick_ran(self.name(), tick, took),
            Ok(Some(error)) => events::job_failed(self.name(), tick, took, &error),
            Err(payload) => self.tell_panic(tick, took, payload),
        }
    }

    fn tell_panic(&self, tick: Tick, took: Duration, payload: Box<dyn Any + Send>) {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        events::job_panicked(self.name(), tick, took, text.unwrap_or("(no text)"));
        contain(|| drop(payload));
    }

    fn tell(&self, tick: Tick, outcome: TickOutcome<()>) {
        let not_run = |reason: &dyn Display| events::tick_not_run(self.name(), tick, reason);
        match outcome {
            // It was told when the body ended.
            TickOutcome::Ran(()) => {}
            TickOutcome::AlreadyClaimed => events::tick_claimed(self.name(), tick),
            TickOutcome::TooLate => not_run(&"the late limit has passed"),
            TickOutcome::Overlaps => not_run(&"the run of an earlier tick goes on"),
            TickOutcome::Unavailable(cause) => not_run(&cause),
            TickOutcome::Stopped(loss) => {
                not_run(&format_args!("stopped half-way, its lock was lost: {loss}"));
            }
        }
    }
}

/// Waits for a run; `None` if it is to stop before its body has begun.
async fn unless_stopped<T>(
    run: impl Future<Output = T>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    has_begun: &AtomicBool,
) -> Option<T> {
    let mut run = pin!(run);
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        if has_begun.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        stop.as_mut().poll(cx).map(|()| None)
    })
    .await
}
