//! The run of one plan, from the first moment to the verdict.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{AcquireError, LockRequest};

use super::client::SimClient;
use super::coverage::Mark;
use super::cx::WorkloadCx;
use super::invariant::{self, Invariant};
use super::ledger::{AttemptFacts, CallResult, Ledger, Leftover, Vote};
use super::outcome::Outcome;
use super::plan::Plan;
use super::server::ServerId;
use super::simulation::Sim;
use super::tasks::ClientId;
use super::workload::pairing::RESOURCES;

/// How long after the end of all work and faults the keys must be gone: releases that are owed are
/// sent again at least once a second, and a connect takes hardly more than a second.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// A run under way.
pub(crate) struct Run {
    pub(crate) sim: Sim,
    pub(crate) cx: WorkloadCx,
}

impl Run {
    /// Lets faults and work go on to their end.
    pub(crate) fn work(&mut self) {
        let plan = &self.cx.plan;
        self.sim.run_until(plan.duration);
        let limit = plan.duration + plan.ttl * 5 + Duration::from_secs(150);
        while self.sim.shared.world().workers > 0 {
            if self.sim.now() >= limit {
                let workers = self.sim.shared.world().workers;
                self.violation("liveness", format!("{workers} workers never ended"));
                return;
            }
            self.sim.run_for(Duration::from_secs(1));
        }
    }

    /// Looks for keys that should not be there any more.
    pub(crate) fn tidy(&mut self) {
        self.sim.run_for(TIDY_WITHIN);
        self.look_for_leftovers();
    }

    fn look_for_leftovers(&self) {
        let mut world = self.sim.shared.world();
        let now = world.now;
        for server in 0..world.servers.len() {
            for (key, fact, left) in world.servers[server].keys(now) {
                let excused = fact.is_some_and(|fact| {
                    let age = now.saturating_sub(fact.refreshed_at);
                    // A release that is owed is given up when the ttl has passed by the client's
                    // clock, a little sooner perhaps than by the server's.
                    fact.is_ghost || fact.is_kept || age >= fact.ttl.mul_f64(0.9)
                });
                let attempt = fact.and_then(|fact| world.ledger.attempt(&fact.token));
                let excused = excused
                    || attempt.is_some_and(|attempt| {
                        attempt
                            .owner
                            .is_none_or(|owner| world.clients[owner.0].is_dead)
                            || world.ledger.kept.contains(&attempt.token)
                    });
                if !excused {
                    world.ledger.leftovers.push(Leftover {
                        server: ServerId(server),
                        key,
                        token: fact.map(|fact| fact.token),
                        left,
                    });
                }
            }
        }
    }

    /// Checks that every client that is alive gets every lock, once the keys that may be left have
    /// ended.
    pub(crate) fn probe(&mut self) {
        let left = self.longest_left();
        self.sim.run_for(left + Duration::from_millis(10));
        let plan = self.cx.plan.clone();
        let bound = Duration::from_secs(2) + plan.node_timeout() * 10;
        for client in self.cx.clients.clone() {
            if self.is_gone(client.id) {
                continue;
            }
            for resource in 0..plan.resources {
                let client = client.clone();
                let request = LockRequest::new(format!("lock-{resource}")).max_wait(bound);
                client.clone().spawn(async move {
                    match client.locks.acquire(&request).await {
                        Ok(guard) => drop(guard.release().await),
                        Err(error) => client.no_lock(&error),
                    }
                });
                self.sim.run_for(bound * 2);
            }
        }
        if self.sim.shared.world().is_pairing {
            self.probe_together();
        }
        self.sim.run_for(TIDY_WITHIN);
        self.look_for_leftovers();
        self.look_for_loose_ends();
    }

    /// Lets all clients acquire all locks together, each in another order: none may wait for ever.
    fn probe_together(&mut self) {
        let plan = &self.cx.plan;
        let bound = Duration::from_secs(10) + plan.node_timeout() * 100;
        let (ttl, work) = (plan.ttl.max(bound), plan.node_timeout());
        for (number, client) in self.cx.clients.iter().enumerate() {
            if self.is_gone(client.id) {
                continue;
            }
            let mut resources = RESOURCES;
            resources.rotate_left(number % RESOURCES.len());
            let request = LockRequest::many(resources).ttl(ttl).max_wait(bound);
            let worker = client.clone();
            client.spawn(async move {
                match worker.locks.acquire(&request).await {
                    Ok(guard) => {
                        worker.sleep(work).await;
                        drop(guard.release().await);
                    }
                    Err(error) => worker.no_lock(&error),
                }
            });
        }
        self.sim.run_for(bound * 2);
    }

    /// Returns whether the client cannot acquire any lock any more.
    fn is_gone(&self, client: ClientId) -> bool {
        let world = self.sim.shared.world();
        let client = &world.clients[client.0];
        client.is_dead || client.shut_at.is_some()
    }

    fn longest_left(&self) -> Duration {
        let mut world = self.sim.shared.world();
        let now = world.now;
        let servers = world.servers.iter_mut();
        let left = servers.flat_map(|server| server.keys(now));
        left.map(|(_, _, left)| left).max().unwrap_or_default()
    }

    /// Looks for tasks, calls and connections that never end.
    fn look_for_loose_ends(&self) {
        let clients = &self.cx.clients;
        let mut alive = clients.iter().map(|client| self.sim.tasks_alive(client.id));
        if alive.any(|alive| alive > 0) {
            // The task that extends locks looks once more, a third of the longest ttl later at
            // most.
            self.sim.run_for(self.cx.plan.ttl);
        }
        for client in &self.cx.clients {
            let alive = self.sim.tasks_alive(client.id);
            let is_dead = self.sim.shared.world().clients[client.id.0].is_dead;
            if alive > 0 && !is_dead {
                let client = client.id.0;
                self.violation("bounds", format!("{alive} tasks of client {client} go on"));
            }
        }
        let (in_flight, spare) = {
            let world = self.sim.shared.world();
            let calls = world.endpoints.iter().map(|endpoint| endpoint.calls.len());
            (calls.sum::<usize>(), world.spare_connections())
        };
        if spare > 0 {
            let text = format!("{spare} connections linger without end");
            self.violation("bounds", text);
        }
        if in_flight > 0 {
            self.violation("bounds", format!("{in_flight} calls never ended"));
        }
    }

    fn violation(&self, invariant: &'static str, text: String) {
        self.sim.shared.world().ledger.violation(invariant, text);
    }

    pub(crate) fn end(self, workload: &'static str, invariants: &[Box<dyn Invariant>]) -> Outcome {
        let Self { sim, cx } = self;
        let plan = cx.plan.clone();
        let peak_tasks = sim.shared.tasks().peak();
        let mut world = sim.shared.world();
        let world = &mut *world;
        let ledger = &mut world.ledger;
        ledger.peak_tasks = peak_tasks;
        let peaks = world.endpoints.iter().map(|endpoint| endpoint.peak);
        ledger.peak_in_flight = peaks.max().unwrap_or_default();
        mark_resolved(ledger, &plan);
        let excused = invariant::excused_overlaps(&plan, ledger);
        for _ in 0..excused {
            ledger.mark(Mark::ExcusedOverlap);
        }
        let mut violations = std::mem::take(&mut ledger.violations);
        for invariant in invariants {
            invariant.judge(&plan, ledger, &mut violations);
        }
        if plan.has_guard {
            violations.retain(|violation| GUARDED.contains(&violation.invariant));
        }
        Outcome {
            workload,
            coverage: ledger.coverage.clone(),
            violations,
            hash: world.hash.value(),
            simulated: world.now,
            forgot: !ledger.data_losses.is_empty(),
            within_budget: ledger.is_within_budget(&plan),
            trace: world.trace.take(),
            plan,
        }
    }
}

/// What a run with a restart guard is judged by.
const GUARDED: [&str; 3] = ["exclusion", "fencing", "register"];

impl SimClient {
    fn no_lock(&self, error: &AcquireError) {
        let client = self.id.0;
        self.violation(
            "liveness",
            format!("client {client} cannot acquire: {error}"),
        );
    }
}

/// Counts the calls that won after an attempt that had shared the votes with a rival, or had met a
/// holder.
fn mark_resolved(ledger: &mut Ledger, plan: &Plan) {
    let mut by_key: HashMap<(ClientId, &[u8]), Vec<&AttemptFacts>> = HashMap::new();
    for attempt in &ledger.attempts {
        let key = (attempt.client, attempt.key());
        by_key.entry(key).or_default().push(attempt);
    }
    let (mut splits, mut waits) = (0, 0);
    for call in &ledger.calls {
        if call.result != CallResult::Acquired {
            continue;
        }
        let key = call.keys.first().map_or(&[][..], |key| key);
        let attempts = by_key.get(&(call.client, key)).into_iter().flatten();
        let during =
            |attempt: &&&AttemptFacts| (call.began..=call.ended).contains(&attempt.started);
        let count = |attempt: &AttemptFacts, vote: Vote| {
            let nodes = &attempt.nodes[..plan.servers];
            nodes.iter().filter(|node| node.vote == vote).count()
        };
        let (mut split, mut wait) = (false, false);
        for attempt in attempts.filter(during) {
            let (granted, refused) = (count(attempt, Vote::Granted), count(attempt, Vote::Refused));
            split |= granted > 0 && refused > 0 && granted < plan.quorum;
            wait |= refused >= plan.quorum;
        }
        splits += usize::from(split);
        waits += usize::from(wait);
    }
    for _ in 0..splits {
        ledger.mark(Mark::SplitResolved);
    }
    for _ in 0..waits {
        ledger.mark(Mark::WaitedOut);
    }
}
