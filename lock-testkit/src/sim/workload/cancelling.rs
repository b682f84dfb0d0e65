//! Clients whose calls are dropped at every await, one after the other.

use super::Workload;
use super::contending::{request, work};
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::dropping::drop_at_poll;
use crate::sim::plan::Plan;

/// No call takes more polls than this before it is let through.
const POLLS: u32 = 24;

pub(super) struct Cancelling;

impl Workload for Cancelling {
    fn name(&self) -> &'static str {
        "cancelling"
    }

    fn start(&self, cx: &WorkloadCx) {
        cx.each(&mut cx.chance(), |_| 1, worker);
    }
}

async fn worker(client: SimClient, plan: Plan, mut chance: Chance) {
    // The call is dropped at its first poll, then at its second, and so on until it ends before
    // that.
    for polls in 0..POLLS {
        if !client.next_round(&mut chance, plan.duration / 24).await {
            return;
        }
        let request = request(&plan, &mut chance);
        let call = client.acquire(&request);
        let Some(result) = drop_at_poll(call, polls).await else {
            continue;
        };
        let Ok(tracked) = result else { continue };
        client.sleep(work(&plan, &mut chance) / 2).await;
        let polls = chance.index(6) as u32;
        if chance.happens(0.5) {
            drop(drop_at_poll(tracked.extend(plan.ttl), polls).await);
        }
        drop(drop_at_poll(tracked.release(), polls).await);
    }
}
