//! Locks that are shut down in the middle of work.

use std::time::Duration;

use super::Workload;
use super::contending::{request, work};
use super::renewing::renewed;
use crate::sim::chance::Chance;
use crate::sim::plan::Plan;
use crate::sim::stage::{Seat, Stage};
use crate::sim::tracked::Tracked;

const ROUNDS: u32 = 12;

pub(super) struct Shutting;

impl Workload for Shutting {
    fn name(&self) -> &'static str {
        "shutting"
    }

    fn start(&self, stage: &Stage) {
        let mut chance = stage.chance();
        // The first client stays, to see what the others leave behind.
        for seat in &stage.seats[1..] {
            let ender = end(seat.clone(), stage.plan.clone(), chance.fork());
            stage.work(seat, ender);
        }
        stage.each(&mut chance, |chance| 1 + chance.index(3), worker);
    }
}

async fn end(seat: Seat, plan: Plan, mut chance: Chance) {
    seat.sleep(chance.duration(Duration::ZERO, plan.duration))
        .await;
    for _ in 0..=chance.index(2) {
        let least = Duration::from_millis(1);
        let within = chance.magnitude(least, Duration::from_secs(5));
        drop(seat.shut_down(within).await);
    }
}

async fn worker(seat: Seat, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !seat.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let mut request = request(&plan, &mut chance);
        if chance.happens(0.4) {
            request = renewed(request, &plan, &mut chance);
        }
        let Ok(mut tracked) = seat.acquire(&request).await else {
            continue;
        };
        if chance.happens(0.2) {
            match handed_over(&seat, tracked).await {
                Some(resumed) => tracked = resumed,
                None => continue,
            }
        }
        seat.sleep(work(&plan, &mut chance)).await;
        if chance.happens(0.5) {
            drop(tracked.release().await);
        }
    }
}

/// The same lock by another guard.
async fn handed_over(seat: &Seat, tracked: Tracked) -> Option<Tracked> {
    let lease = tracked.into_lease()?;
    seat.resume(&lease).await?.ok()
}
