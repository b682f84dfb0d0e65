//! What an instance of the service does.

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

use crate::args::{Args, Instants};
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
    instants: Instants,
    reporter: Reporter,
}

impl Instance {
    pub(crate) fn new(
        number: usize,
        locks: Arc<dyn DistributedLock>,
        args: &Args,
        reporter: Reporter,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            number,
            locks,
            // The instants come from a scheduler, so the job has no period of its own.
            job: TickJob::at_instants("report").build()?,
            schedule: args.schedule.clone(),
            instants: args.instants,
            reporter,
        })
    }
}

/// Runs the job by the schedule until `stopped` closes.
pub(crate) async fn run(
    instance: Instance,
    mut stopped: watch::Receiver<()>,
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
    let signal = async move {
        // Nothing is ever sent: this ends when the sender is dropped.
        stopped.changed().await.ok();
        Ok(())
    };
    monitor.run_with_signal(signal).await?;
    Ok(())
}

/// The scheduler calls this on every instance. One of them runs the job.
async fn on_tick(
    tick: apalis_cron::Tick,
    instance: Data<Arc<Instance>>,
) -> Result<(), BoxDynError> {
    let tick = match instance.instants {
        // The right way: the instant for which the scheduler has planned this, never the time
        // that it is now.
        Instants::HandedOver => Tick::at(UNIX_EPOCH + Duration::from_secs(tick.get_timestamp()))?,
        // As with a scheduler that does not say it.
        Instants::Found => match planned(&instance.schedule, Utc::now()) {
            Some(instant) => Tick::at(SystemTime::from(instant))?,
            None => return Err("the scheduler started a job that it has not planned".into()),
        },
    };
    let job = async |_: &_| the_job(tick).await;
    let outcome = instance.job.run(&instance.locks, tick, job).await?;
    // If nobody listens any more, the program is about to end.
    let report = Report::new(instance.number, tick, outcome);
    instance.reporter.send(report).ok();
    Ok(())
}

/// The job itself. It tells how many milliseconds after its instant it began.
async fn the_job(tick: Tick) -> u128 {
    let began = SystemTime::now().duration_since(UNIX_EPOCH);
    let late = began.unwrap_or_default().saturating_sub(tick.since_epoch());
    tokio::time::sleep(Duration::from_millis(30)).await;
    late.as_millis()
}
