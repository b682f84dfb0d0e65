//! Locks that stay taken for a while after their release.

use std::time::Duration;

use super::Workload;
use super::contending::{request, work};
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

const ROUNDS: u32 = 10;

pub(super) struct Keeping;

impl Workload for Keeping {
    fn name(&self) -> &'static str {
        "keeping"
    }

    fn start(&self, cx: &WorkloadCx) {
        cx.each(&mut cx.chance(), |_| 1, worker);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let mut request = request(&plan, &mut chance);
        let ttl = request.options().ttl.unwrap_or(plan.ttl);
        let hold = chance.duration(Duration::ZERO, ttl.min(Duration::from_secs(2)));
        request = request.hold_at_least(hold);
        let Ok(tracked) = client.acquire(&request).await else {
            continue;
        };
        let keeps_until = client.runtime.now() + hold;
        client.sleep(work(&plan, &mut chance) / 8).await;
        tracked.keep_until(keeps_until);
        if chance.happens(0.5) {
            drop(tracked.release().await);
        }
    }
}
