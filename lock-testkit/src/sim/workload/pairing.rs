//! Several resources at once, in sets that overlap.

use lock_core::LockRequest;

use super::Workload;
use super::contending::{vary, work};
use super::renewing::renewed;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

const ROUNDS: u32 = 8;

/// What the sets are made of.
pub(crate) const RESOURCES: [&str; 4] = ["lock-0", "lock-1", "lock-2", "lock-3"];

pub(super) struct Pairing;

impl Workload for Pairing {
    fn name(&self) -> &'static str {
        "pairing"
    }

    fn start(&self, cx: &WorkloadCx) {
        let mut chance = cx.chance();
        {
            let mut world = cx.shared.world();
            world.is_pairing = true;
            // As on a cluster, where locks are acquired one after the other.
            let wants_one_slot = chance.happens(0.3);
            for server in &mut world.servers {
                server.wants_one_slot = wants_one_slot;
            }
        }
        cx.each(&mut chance, |chance| 1 + chance.index(2), worker);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let mut request = vary(LockRequest::many(some(&mut chance)), &plan, &mut chance);
        if chance.happens(0.2) {
            request = renewed(request, &plan, &mut chance);
        }
        let tracked = if chance.happens(0.3) {
            client.try_acquire(&request).await.ok().flatten()
        } else {
            client.acquire(&request).await.ok()
        };
        let Some(tracked) = tracked else { continue };
        client.sleep(work(&plan, &mut chance)).await;
        if chance.happens(0.3) {
            drop(tracked.extend(plan.ttl).await);
        }
        if chance.happens(0.7) {
            drop(tracked.release().await);
        }
    }
}

/// One to three of the resources, in any order.
fn some(chance: &mut Chance) -> Vec<&'static str> {
    let mut resources = RESOURCES.to_vec();
    for _ in 0..=chance.index(3) {
        resources.swap_remove(chance.index(resources.len()));
    }
    if chance.happens(0.5) {
        resources.reverse();
    }
    resources
}
