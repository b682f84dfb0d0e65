//! Clients, some with several workers, that want the same locks.

use std::time::Duration;

use lock_core::{LockRequest, RetryPolicy};

use super::Workload;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;

/// How many times a worker acquires at most, so that no seed takes long.
const ROUNDS: u32 = 12;

pub(super) struct Contending;

impl Workload for Contending {
    fn name(&self) -> &'static str {
        "contending"
    }

    fn start(&self, cx: &WorkloadCx) {
        cx.each(&mut cx.chance(), |chance| 1 + chance.index(2), worker);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let request = request(&plan, &mut chance);
        let tracked = if chance.happens(0.3) {
            client.try_acquire(&request).await.ok().flatten()
        } else {
            client.acquire(&request).await.ok()
        };
        let Some(tracked) = tracked else { continue };
        client.sleep(work(&plan, &mut chance)).await;
        if chance.happens(0.7) {
            // What comes of it is counted, and judged by what is left behind.
            drop(tracked.release().await);
        } else {
            drop(tracked);
        }
    }
}

/// How long a holder works: mostly short, sometimes past the end of the lock.
pub(super) fn work(plan: &Plan, chance: &mut Chance) -> Duration {
    if chance.happens(0.15) {
        chance.duration(plan.ttl / 2, plan.ttl + plan.ttl / 4)
    } else {
        chance.duration(Duration::ZERO, plan.ttl / 8)
    }
}

/// Makes a request for any of the plan's resources.
pub(super) fn request(plan: &Plan, chance: &mut Chance) -> LockRequest {
    let resource = format!("lock-{}", chance.index(plan.resources));
    vary(LockRequest::new(resource), plan, chance)
}

/// Returns the request with a random ttl and patience.
pub(super) fn vary(request: LockRequest, plan: &Plan, chance: &mut Chance) -> LockRequest {
    let ttl = if chance.happens(0.2) {
        chance
            .duration(plan.ttl / 2, plan.longest_ttl())
            .max(Duration::from_millis(30))
    } else {
        plan.ttl
    };
    let mut request = request.ttl(ttl);
    // Long waits with short pauses would be all that a run consists of.
    let max_wait = chance.duration(Duration::ZERO, plan.ttl.min(Duration::from_secs(3)));
    request = request.max_wait(max_wait);
    if chance.happens(0.2) {
        request = request.fail_if_held(true);
    }
    if chance.happens(0.2) {
        let delay = chance.duration(Duration::ZERO, Duration::from_millis(20));
        request = request.retry(RetryPolicy::new().delay(delay).backoff(1));
    }
    request
}
