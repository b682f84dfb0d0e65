//! Holders that work in steps until the lock is lost.

use std::time::Duration;

use futures::future::{Either, select};

use super::Workload;
use super::contending::request;
use super::renewing::renewed;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;
use crate::sim::tracked::TrackedGuard;

const ROUNDS: u32 = 5;
const STEPS: usize = 16;

pub(super) struct Losing;

impl Workload for Losing {
    fn name(&self) -> &'static str {
        "losing"
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
        if chance.happens(0.5) {
            request = renewed(request, &plan, &mut chance);
        }
        let Ok(mut tracked) = client.acquire(&request).await else {
            continue;
        };
        tracked.watch();
        work_until_lost(&client, &tracked, &mut chance).await;
        match chance.below(4) {
            0 => drop(tracked),
            1 => drop(tracked.extend_and_release(plan.ttl).await),
            _ => drop(tracked.release().await),
        }
    }
}

/// Steps, some with an extension, until the lock is lost or the work is done.
async fn work_until_lost(client: &SimClient, tracked: &TrackedGuard, chance: &mut Chance) {
    let ttl = tracked.ttl();
    let mut lost = tracked.guard().lost();
    for _ in 0..chance.index(STEPS) {
        let step = client
            .runtime
            .sleep(chance.duration(Duration::ZERO, ttl / 3));
        match select(lost, step).await {
            Either::Left((loss, _)) => {
                if tracked.guard().is_valid() {
                    client.violation("loss", format!("a valid lock was lost: {loss}"));
                }
                // Too late.
                drop(tracked.extend(ttl).await);
                return;
            }
            Either::Right(((), rest)) => lost = rest,
        }
        if chance.happens(0.2) {
            drop(tracked.extend(ttl).await);
        }
    }
}
