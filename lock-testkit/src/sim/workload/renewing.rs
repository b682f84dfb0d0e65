//! Locks that are extended automatically, for longer than their ttl, some many at a time.

use std::time::Duration;

use lock_core::LockRequest;

use super::Workload;
use super::contending::request;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

const ROUNDS: usize = 3;
/// The most locks at a time.
const MANY: usize = 12;

pub(super) struct Renewing;

impl Workload for Renewing {
    fn name(&self) -> &'static str {
        "renewing"
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
        let mut held = Vec::new();
        let many = chance.happens(0.3);
        for number in 0..if many { chance.index(MANY) } else { 1 } {
            let mut request = request(&plan, &mut chance);
            if many {
                let own = format!("own-{}-{number}", client.id.index());
                request = LockRequest::new(own).ttl(plan.ttl);
            }
            let request = renewed(request, &plan, &mut chance);
            // Some follow each other closely, so that their extensions go together or not.
            held.extend(client.acquire(&request).await.ok());
        }
        let longest = plan.ttl * if many { 2 } else { 4 };
        client.sleep(chance.duration(Duration::ZERO, longest)).await;
        for tracked in held {
            if chance.happens(0.6) {
                drop(tracked.release().await);
            } else {
                drop(tracked);
            }
            client
                .sleep(chance.duration(Duration::ZERO, plan.ttl / 8))
                .await;
        }
    }
}

/// The request, extended automatically: mostly each third of the validity, and sometimes not for
/// as long as its holder sleeps.
pub(super) fn renewed(request: LockRequest, plan: &Plan, chance: &mut Chance) -> LockRequest {
    let ttl = request.options().ttl.unwrap_or(plan.ttl);
    let mut request = request.auto_extend(true);
    if chance.happens(0.3) {
        request = request.max_hold(chance.duration(Duration::ZERO, ttl * 3));
    }
    if chance.happens(0.3) {
        request = request.extend_interval(chance.duration(ttl / 6, ttl.mul_f64(0.55)));
    }
    request
}
