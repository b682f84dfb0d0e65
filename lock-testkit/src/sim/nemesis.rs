//! Injects the faults of a run.

use std::time::Duration;

use super::chance::Chance;
use super::fault::{Fault, FaultKind, LONGEST_STANDSTILL};
use super::network::rules::NetworkRules;
use super::plan::Plan;
use super::server::ServerId;
use super::tasks::ClientId;
use super::world::World;

/// Injects faults at random moments until the plan's duration is over. Then everything works again.
#[derive(Clone, Debug)]
pub(crate) struct Nemesis {
    chance: Chance,
    kinds: Vec<FaultKind>,
    plan: Plan,
}

impl Nemesis {
    pub(crate) fn start(plan: &Plan, world: &mut World) {
        world.rules = plan.rules;
        let kinds = plan.faults.iter().copied().filter(|kind| !kind.is_rule());
        world.faults_end = plan.duration;
        world.skew = plan.skew;
        world.patience = plan.node_timeout() * 2;
        let nemesis = Self {
            chance: Chance::new(plan.seed ^ 0x6e65_6d65),
            kinds: kinds.collect(),
            plan: plan.clone(),
        };
        let usual = plan.rules.usual;
        world.at(plan.duration, move |world| {
            world.note(|| "faults end".to_owned());
            world.rules = NetworkRules {
                usual,
                longest: usual * 4,
                ..NetworkRules::default()
            };
            for link in 0..world.links.len() {
                world.lag(link, Duration::ZERO);
            }
            for server in &mut world.servers {
                server.clear_fault();
            }
        });
        nemesis.plan_next(world);
    }

    fn plan_next(mut self, world: &mut World) {
        let pause = self.plan.fault_every.mul_f64(2.0 * self.chance.unit());
        let at = world.now + pause.max(Duration::from_micros(1));
        if self.kinds.is_empty() || at >= self.plan.duration {
            return;
        }
        world.at(at, move |world| {
            self.inject(world);
            self.plan_next(world);
        });
    }

    fn inject(&mut self, world: &mut World) {
        let Some(kind) = self.chance.pick(&self.kinds).copied() else {
            return;
        };
        let longest = match kind {
            FaultKind::StallDriver => LONGEST_STANDSTILL,
            _ => self.plan.fault_lasts,
        };
        let lasting = self.chance.duration(Duration::ZERO, longest);
        // Everything works again when the faults end.
        let left = self.plan.duration.saturating_sub(world.now);
        let servers = if kind.forgets() {
            self.plan.forgetful_servers
        } else {
            self.plan.servers
        };
        let server = ServerId(self.chance.index(servers));
        let client = ClientId(self.chance.index(self.plan.clients));
        if servers == 0 || (kind == FaultKind::KillClient && !may_kill(world, client)) {
            return;
        }
        world.inject(Fault {
            kind,
            server,
            client,
            lasting: lasting.min(left),
        });
    }
}

/// Returns whether enough clients are left to work without this one.
fn may_kill(world: &World, client: ClientId) -> bool {
    let alive = world
        .clients
        .iter()
        .filter(|client| !client.is_dead)
        .count();
    alive > 2 && !world.clients[client.0].is_dead && client.0 != 0
}
