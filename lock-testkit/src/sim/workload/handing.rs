//! Locks that go from one client to another as data, in time or too late.

use std::time::Duration;

use lock_core::Lease;
use lock_core::runtime::BoxFuture;

use super::Workload;
use super::contending::{request, work};
use super::renewing::renewed;
use crate::sim::chance::Chance;
use crate::sim::client::SimClient;
use crate::sim::cx::WorkloadCx;
use crate::sim::plan::Plan;
use crate::sim::tracked::TrackedGuard;

const ROUNDS: u32 = 5;
/// How many times a lease is handed on at most.
const HOPS: u32 = 3;

pub(super) struct Handing;

impl Workload for Handing {
    fn name(&self) -> &'static str {
        "handing"
    }

    fn start(&self, cx: &WorkloadCx) {
        let clients = cx.clients.clone();
        let worker = |client, plan, chance| worker(clients.clone(), client, plan, chance);
        cx.each(&mut cx.chance(), |_| 1, worker);
    }
}

async fn worker(clients: Vec<SimClient>, client: SimClient, plan: Plan, mut chance: Chance) {
    for _ in 0..ROUNDS {
        if !client.next_round(&mut chance, plan.duration / 16).await {
            return;
        }
        let mut request = request(&plan, &mut chance);
        if chance.happens(0.2) {
            request = renewed(request, &plan, &mut chance);
        }
        let Ok(tracked) = client.acquire(&request).await else {
            continue;
        };
        client.sleep(work(&plan, &mut chance)).await;
        hand_on(&clients, &client, tracked, &plan, &mut chance, HOPS);
    }
}

/// Makes a lease of the lock, which another client resumes after a while, or none does.
fn hand_on(
    clients: &[SimClient],
    client: &SimClient,
    tracked: TrackedGuard,
    plan: &Plan,
    chance: &mut Chance,
    hops: u32,
) {
    let Some(lease) = tracked.into_lease() else {
        return;
    };
    let next = chance.pick(clients).unwrap_or(client).clone();
    let is_shared = chance.happens(0.2);
    let text = lease.to_string();
    if chance.happens(0.1) {
        return;
    }
    let mut go = |client: SimClient| {
        let going_on = Going {
            clients: clients.to_vec(),
            client: client.clone(),
            plan: plan.clone(),
            chance: chance.fork(),
            hops,
        };
        client.spawn(going_on.on(text.clone()));
    };
    go(next);
    if is_shared {
        client.shared.world().share(&lease);
        go(client.clone());
    }
}

/// A client that resumes locks.
struct Going {
    clients: Vec<SimClient>,
    client: SimClient,
    plan: Plan,
    chance: Chance,
    hops: u32,
}

impl Going {
    /// Boxed, since it leads to another of its kind.
    fn on(mut self, text: String) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let lease = match text.parse::<Lease>() {
                Ok(lease) => lease,
                Err(error) => return self.client.violation("handing", error.to_string()),
            };
            let longest = lease.remaining().mul_f64(1.2);
            let way = self.chance.duration(Duration::ZERO, longest);
            let way = if self.chance.happens(0.5) {
                way / 8
            } else {
                way
            };
            self.client.sleep(way).await;
            let Some(resumed) = self.resume(lease.clone()).await else {
                return;
            };
            self.client.sleep(work(&self.plan, &mut self.chance)).await;
            if self.hops > 0 && self.chance.happens(0.4) {
                let Self {
                    clients,
                    client,
                    plan,
                    chance,
                    hops,
                } = &mut self;
                return hand_on(clients, client, resumed, plan, chance, *hops - 1);
            }
            if self.chance.happens(0.3) {
                return drop(resumed);
            }
            let is_over = resumed.release().await.is_ok();
            if is_over && self.chance.happens(0.3) {
                // Too late, and a mistake: it must do no harm to another holder.
                drop(self.client.resume(&lease).await);
            }
        })
    }

    /// Tries again while nodes fail.
    async fn resume(&mut self, mut lease: Lease) -> Option<TrackedGuard> {
        for _ in 0..3 {
            match self.client.resume(&lease).await? {
                Ok(tracked) => return Some(tracked),
                Err(lock_core::ResumeError::Unavailable { lease: again, .. }) => lease = *again,
                Err(_) => return None,
            }
            self.client.sleep(self.plan.node_timeout()).await;
        }
        None
    }
}
