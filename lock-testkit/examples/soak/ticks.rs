//! A job that all children run, once for each tick.

use std::time::Duration;

use lock_core::tick::{Tick, TickJob, TickOutcome};

use crate::child::Desk;
use crate::clock;
use crate::event::Event;

/// The name of the job, with which its claims begin.
pub(crate) const JOB: &str = "soaked-job";

const PERIOD: Duration = Duration::from_millis(500);

/// How late a tick may be run.
const LATE: Duration = Duration::from_secs(5);

/// Runs ticks when it is time to, for ever.
pub(crate) async fn run(desk: Desk) {
    loop {
        desk.rest().await;
        let job = TickJob::every(JOB, PERIOD).late_limit(LATE).build();
        let ticks = job.as_ref().map(|job| job.ticks());
        let (Ok(job), Ok(Ok(mut ticks))) = (&job, ticks) else {
            return desk.tell(&Event::Failed(format!("no ticks of {job:?}")));
        };
        loop {
            let tick = tokio::select! {
                biased;
                () = desk.until_rest() => break,
                tick = ticks.next() => tick,
            };
            match tick {
                Some(tick) => one(&desk, job, tick).await,
                None => return desk.tell(&Event::Failed("ticks have ended".to_owned())),
            }
        }
    }
}

async fn one(desk: &Desk, job: &TickJob, tick: Tick) {
    let asked = clock::now();
    let body = async |_: &_| {
        desk.tell(&Event::Ran {
            tick: tick.as_millis(),
            asked,
            at: clock::now(),
        });
    };
    let outcome = match job.run(&desk.locks, tick, body).await {
        Ok(TickOutcome::Ran(())) => "ran",
        Ok(TickOutcome::AlreadyClaimed) => "already-claimed",
        Ok(TickOutcome::TooLate) => "too-late",
        Ok(TickOutcome::Unavailable(_)) => "unavailable",
        Ok(other) => return desk.tell(&Event::Failed(format!("the tick {tick}: {other:?}"))),
        Err(error) => return desk.tell(&Event::Failed(format!("the tick {tick}: {error}"))),
    };
    desk.count(format!("tick-{outcome}"));
}
