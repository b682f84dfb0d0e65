//! Holders that write to a register with their fencing tokens, some of them too late.

use std::time::Duration;

use super::Workload;
use super::contending::{request, work};
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

const ROUNDS: u32 = 10;

pub(super) struct Fencing;

impl Workload for Fencing {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn start(&self, cx: &WorkloadCx) {
        cx.each(&mut cx.chance(), |chance| 1 + chance.index(2), worker);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 32).await {
            return;
        }
        let request = request(&plan, &mut chance).fencing(true);
        let Ok(tracked) = client.acquire(&request).await else {
            continue;
        };
        // Many give it back at once, while calls of other attempts are under way.
        if chance.happens(0.4) {
            client.sleep(work(&plan, &mut chance)).await;
        }
        tracked.write();
        if chance.happens(0.2) {
            // It stalls, and does not look at its guard before it writes.
            client
                .sleep(chance.duration(Duration::ZERO, plan.ttl * 2))
                .await;
            tracked.write();
        }
        if chance.happens(0.8) {
            drop(tracked.release().await);
        } else {
            drop(tracked);
        }
    }
}
