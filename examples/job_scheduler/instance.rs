//! What an instance of the service does, with each of the schedulers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use apalis_core::error::{BoxDynError, WorkerError};
use apalis_core::monitor::Monitor;
use apalis_core::task::data::Data;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_cron::CronScheduler;
use chrono::Utc;
use cron::Schedule;
use examples::BoxError;
use lock_core::DistributedLock;
use lock_core::tick::{Tick, TickJob};
use tokio::sync::watch;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::args::{Args, Scheduler};
use crate::ledger::{Report, Reporter};
use crate::planned::planned;

/// What each run of the job needs.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    number: usize,
    locks: Arc<dyn DistributedLock>,
    job: TickJob,
    /// All instances must have the same one, in the same time zone: here UTC.
    schedule: Schedule,
    reporter: Reporter,
}

impl Instance {
    pub(crate) fn new(
        number: usize,
        locks: Arc<dyn DistributedLock>,
        args: &Args,
        reporter: Reporter,
    ) -> Result<Self, BoxError> {
        let job = match args.scheduler {
            Scheduler::None => TickJob::cron("report", args.schedule.to_string(), "UTC"),
            // The instants come from a scheduler, so the job has no schedule of its own.
            _ => TickJob::at_instants("report"),
        };
        Ok(Self {
            number,
            locks,
            job: job.build()?,
            schedule: args.schedule.clone(),
            reporter,
        })
    }

    /// Every instance does this for each instant. One of them runs the job.
    async fn claim_and_run(&self, tick: Tick) -> Result<(), BoxError> {
        let job = async |_: &_| the_job(tick).await;
        let outcome = self.job.run(&self.locks, tick, job).await?;
        // If nobody listens any more, the program is about to end.
        let report = Report::new(self.number, tick, outcome);
        self.reporter.send(report).ok();
        Ok(())
    }
}

/// Runs the job by the schedule until `stopped` closes.
pub(crate) async fn run(
    instance: Instance,
    scheduler: Scheduler,
    mut stopped: watch::Receiver<()>,
) -> Result<(), BoxError> {
    let stop = async move {
        // Nothing is ever sent: this ends when the sender is dropped.
        stopped.changed().await.ok();
        Ok(())
    };
    match scheduler {
        Scheduler::Apalis => with_apalis(instance, stop).await,
        Scheduler::TokioCron => with_tokio_cron_scheduler(instance, stop).await,
        Scheduler::None => {
            tokio::select! {
                stopped = stop => Ok(stopped?),
                ended = by_itself(instance) => ended,
            }
        }
    }
}

async fn with_apalis(
    instance: Instance,
    stop: impl Future<Output = std::io::Result<()>> + Send,
) -> Result<(), BoxError> {
    let instance = Arc::new(instance);
    let monitor = Monitor::new()
        .register(move |_restarts| {
            WorkerBuilder::new(format!("instance-{}", instance.number))
                .backend(CronScheduler::new(instance.schedule.clone()))
                .data(Arc::clone(&instance))
                .build(on_tick)
        })
        // After a standstill that has swallowed an instant the scheduler ends with an error. It goes
        // on with the next instant; another instance may have run the one that was swallowed.
        .should_restart(|_, error| matches!(error, WorkerError::BackendError(_)));
    Ok(monitor.run_with_signal(stop).await?)
}

/// Apalis hands over the instant for which it has planned this, which is never the time that it is now.
async fn on_tick(
    tick: apalis_cron::Tick,
    instance: Data<Arc<Instance>>,
) -> Result<(), BoxDynError> {
    let planned = UNIX_EPOCH + Duration::from_secs(tick.get_timestamp());
    instance.claim_and_run(Tick::at(planned)?).await
}

async fn with_tokio_cron_scheduler(
    instance: Instance,
    stop: impl Future<Output = std::io::Result<()>>,
) -> Result<(), BoxError> {
    let mut scheduler = JobScheduler::new().await?;
    let expression = instance.schedule.to_string();
    let job = Job::new_async(expression, move |_, _| {
        let instance = instance.clone();
        Box::pin(async move {
            // The scheduler does not say for when it has planned this.
            let ran = match planned(&instance.schedule, Utc::now()) {
                Some(instant) => match Tick::at(SystemTime::from(instant)) {
                    Ok(tick) => instance.claim_and_run(tick).await,
                    Err(error) => Err(error.into()),
                },
                None => Err("the scheduler started a job that it has not planned".into()),
            };
            if let Err(error) = ran {
                eprintln!("instance {}: {error}", instance.number);
            }
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    stop.await?;
    Ok(scheduler.shutdown().await?)
}

/// Without a scheduler; with `run_forever` in place of the loop, if nobody has to hear what others ran.
async fn by_itself(instance: Instance) -> Result<(), BoxError> {
    let mut ticks = instance.job.ticks()?;
    while let Some(tick) = ticks.next().await {
        instance.claim_and_run(tick).await?;
    }
    Ok(())
}

/// The job itself. It tells how many milliseconds after its instant it began.
async fn the_job(tick: Tick) -> u128 {
    let began = SystemTime::now().duration_since(UNIX_EPOCH);
    let late = began.unwrap_or_default().saturating_sub(tick.since_epoch());
    tokio::time::sleep(Duration::from_millis(30)).await;
    late.as_millis()
}
