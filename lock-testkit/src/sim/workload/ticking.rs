//! Clients with skewed wall clocks run the ticks of one schedule.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lock_core::tick::{Missed, TickClaim, TickJob};

use super::Workload;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::coverage::Mark;
use crate::sim::cx::WorkloadCx;
use crate::sim::fault::EPOCH;
use crate::sim::ledger::{TickFacts, TickResult};

pub(super) struct Ticking;

impl Workload for Ticking {
    fn name(&self) -> &'static str {
        "ticking"
    }

    fn start(&self, cx: &WorkloadCx) {
        let mut chance = cx.chance();
        let second = Duration::from_secs(1);
        // A period of which a run has a dozen or so.
        let period = chance.magnitude(second / 4, (cx.plan.duration / 12).max(second));
        let period = Duration::from_millis(period.as_millis() as u64);
        let late = if chance.happens(0.5) {
            period
        } else {
            period * 3
        };
        let missed = if chance.happens(0.5) {
            Missed::RunAll
        } else {
            Missed::RunLatest
        };
        for client in &cx.clients {
            let job = TickJob::every("job", period)
                .late_limit(late)
                .missed(missed)
                .runtime(Arc::clone(&client.runtime));
            match job.build() {
                Ok(job) => client.spawn(worker(client.clone(), job, chance.fork())),
                Err(error) => client.violation("ticks", error.to_string()),
            }
        }
        let mut world = cx.shared.world();
        // Long enough for ticks whose whole window lies in it.
        world.quiet_for = cx.plan.skew * 3 + late * 4 + period * 5 + second * 5;
        // Ticks whose whole window lies in the quiet time must not be missed.
        let from = cx.plan.duration + cx.plan.skew * 2 + late * 2 + second * 5;
        let to = cx.plan.duration + world.quiet_for - cx.plan.skew - late;
        // Where a window has room for a few rounds only, rivals may keep each other from a quorum.
        if late < cx.plan.rules.usual * 100 {
            return;
        }
        world.ledger.quiet_ticks = ticks(period, EPOCH + from, EPOCH + to);
    }
}

/// The ticks of a period in a span of time since the epoch, in milliseconds.
fn ticks(period: Duration, from: Duration, to: Duration) -> Vec<u64> {
    let millis = |duration: Duration| duration.as_millis() as u64;
    let period = millis(period);
    let first = millis(from).div_ceil(period);
    let last = millis(to) / period;
    (first..last).map(|number| number * period).collect()
}

async fn worker(client: SimClient, job: TickJob, mut chance: Chance) {
    let mut ticks = match job.ticks() {
        Ok(ticks) => ticks,
        Err(error) => return client.violation("ticks", error.to_string()),
    };
    while client.goes_on_quietly() {
        let Some(tick) = ticks.next().await else {
            return client.violation("ticks", "a period has no end".to_owned());
        };
        let result = match job.claim(&*client.locks, tick).await {
            Ok(TickClaim::Won(_)) => (TickResult::Ran, Mark::TickRan),
            Ok(TickClaim::AlreadyClaimed) => (TickResult::Claimed, Mark::TickClaimed),
            Ok(TickClaim::TooLate) => (TickResult::Late, Mark::TickLate),
            Ok(TickClaim::Unavailable(_)) => (TickResult::Unavailable, Mark::TickUnavailable),
            // The wall clock was set back between the two.
            Err(_) => continue,
        };
        let millis = tick
            .system_time()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        client.ticked(millis.map_or(0, |at| at.as_millis() as u64), result);
        if chance.happens(0.2) && client.goes_on() {
            let busy = chance.duration(Duration::ZERO, job.late_limit() * 2);
            client.sleep(busy).await;
        }
    }
}

impl SimClient {
    fn ticked(&self, tick: u64, (result, mark): (TickResult, Mark)) {
        self.note(|| format!("tick {tick}: {result:?}"));
        let mut world = self.shared.world();
        world.mark(mark);
        let ended = world.now;
        world.ledger.ticks.push(TickFacts {
            tick,
            client: self.id,
            result,
            ended,
        });
    }
}
