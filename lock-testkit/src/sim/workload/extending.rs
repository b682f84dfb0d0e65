//! Holders that extend what they hold.

use std::time::Duration;

use lock_core::ExtendError;

use super::Workload;
use super::contending::{request, work};
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

const ROUNDS: u32 = 6;
const EXTENSIONS: usize = 6;

pub(super) struct Extending;

impl Workload for Extending {
    fn name(&self) -> &'static str {
        "extending"
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
        let request = request(&plan, &mut chance);
        let Ok(tracked) = client.acquire(&request).await else {
            continue;
        };
        for _ in 0..chance.index(EXTENSIONS) {
            // Sometimes too late, to see that nothing is revived.
            let remaining = tracked.guard().remaining();
            let pause = remaining.mul_f64(0.2 + 0.85 * chance.unit());
            client.sleep(pause).await;
            let ttl = chance.duration(plan.ttl / 2, plan.longest_ttl());
            let result = tracked.extend(ttl.max(Duration::from_millis(30))).await;
            if matches!(result, Err(ExtendError::Lost)) || !client.goes_on() {
                break;
            }
        }
        client.sleep(work(&plan, &mut chance) / 4).await;
        if chance.happens(0.5) {
            drop(tracked.release().await);
        }
    }
}
