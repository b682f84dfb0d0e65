//! Locks that are shut down in the middle of work.

use std::time::Duration;

use super::Workload;
use super::contending::{request, work};
use super::renewing::renewed;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;
use crate::sim::tracked::TrackedGuard;

const ROUNDS: u32 = 12;

pub(super) struct Shutting;

impl Workload for Shutting {
    fn name(&self) -> &'static str {
        "shutting"
    }

    fn start(&self, cx: &WorkloadCx) {
        let mut chance = cx.chance();
        // The first client stays, to see what the others leave behind.
        for client in &cx.clients[1..] {
            let ender = end(client.clone(), cx.plan.clone(), chance.fork());
            client.spawn(ender);
        }
        cx.each(&mut chance, |chance| 1 + chance.index(3), worker);
    }
}

async fn end(client: SimClient, plan: Plan, mut chance: Chance) {
    client
        .sleep(chance.duration(Duration::ZERO, plan.duration))
        .await;
    for _ in 0..=chance.index(2) {
        let least = Duration::from_millis(1);
        let within = chance.magnitude(least, Duration::from_secs(5));
        drop(client.shut_down(within).await);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let mut request = request(&plan, &mut chance);
        if chance.happens(0.4) {
            request = renewed(request, &plan, &mut chance);
        }
        let Ok(mut tracked) = client.acquire(&request).await else {
            continue;
        };
        if chance.happens(0.2) {
            match handed_over(&client, tracked).await {
                Some(resumed) => tracked = resumed,
                None => continue,
            }
        }
        client.sleep(work(&plan, &mut chance)).await;
        if chance.happens(0.5) {
            drop(tracked.release().await);
        }
    }
}

/// The same lock by another guard.
async fn handed_over(client: &SimClient, tracked: TrackedGuard) -> Option<TrackedGuard> {
    let lease = tracked.into_lease()?;
    client.resume(&lease).await?.ok()
}
