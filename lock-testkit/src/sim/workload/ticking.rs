//! Clients with skewed wall clocks run the ticks of one schedule.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lock_core::tick::{TickClaim, TickJob};

use super::Workload;
use crate::sim::chance::Chance;
use crate::sim::fault::EPOCH;
use crate::sim::ledger::{TickFacts, TickResult};
use crate::sim::marks::Mark;
use crate::sim::stage::{Seat, Stage};

pub(super) struct Ticking;

impl Workload for Ticking {
    fn name(&self) -> &'static str {
        "ticking"
    }

    fn start(&self, stage: &Stage) {
        let mut chance = stage.chance();
        let second = Duration::from_secs(1);
        // A period of which a run has a dozen or so.
        let period = chance.magnitude(second / 4, (stage.plan.duration / 12).max(second));
        let period = Duration::from_millis(period.as_millis() as u64);
        let late = if chance.happens(0.5) {
            period
        } else {
            period * 3
        };
        for seat in &stage.seats {
            let job = TickJob::every("job", period)
                .late_limit(late)
                .runtime(Arc::clone(&seat.runtime));
            match job.build() {
                Ok(job) => stage.work(seat, worker(seat.clone(), job, chance.fork())),
                Err(error) => seat.violation("ticks", error.to_string()),
            }
        }
        let mut world = stage.shared.world();
        // A clock that was set back must catch up before ticks come again.
        world.quiet_for = stage.plan.skew * 3 + late * 4 + period * 5 + second * 5;
        // Ticks whose whole window lies in the quiet time must not be missed.
        let from = stage.plan.duration + stage.plan.skew * 2 + late * 2 + second * 5;
        let to = stage.plan.duration + world.quiet_for - stage.plan.skew - late;
        // Where a window has room for a few rounds only, rivals may keep each other from a quorum.
        if late < stage.plan.rules.usual * 100 {
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

async fn worker(seat: Seat, job: TickJob, mut chance: Chance) {
    let mut ticks = match job.ticks() {
        Ok(ticks) => ticks,
        Err(error) => return seat.violation("ticks", error.to_string()),
    };
    while seat.goes_on_quietly() {
        let tick = ticks.next().await;
        let result = match job.claim(&*seat.locks, tick).await {
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
        seat.ticked(millis.map_or(0, |at| at.as_millis() as u64), result);
        if chance.happens(0.2) && seat.goes_on() {
            let busy = chance.duration(Duration::ZERO, job.late_limit() * 2);
            seat.sleep(busy).await;
        }
    }
}

impl Seat {
    fn ticked(&self, tick: u64, (result, mark): (TickResult, Mark)) {
        self.note(|| format!("tick {tick}: {result:?}"));
        let mut world = self.shared.world();
        world.mark(mark);
        let ended = world.now;
        world.ledger.ticks.push(TickFacts {
            tick,
            client: self.client,
            result,
            ended,
        });
    }
}
