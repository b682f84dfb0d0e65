//! [`Plan`]: the shape of a run.

use std::time::Duration;

use lock_core::{RedisNode, Redlock, RedlockBuilder, RestartGuard};

use super::chance::Chance;
use super::fault::FaultKind;
use super::network::rules::NetworkRules;
use super::simulation::Sim;
use super::tasks::ClientId;

/// The shape of a run, all of it chosen by the seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// A number that chooses the workload, unless `workload_named` does.
    pub workload: u64,
    /// The name of the workload, if one was asked for.
    pub workload_named: Option<&'static str>,
    /// The number of servers.
    pub servers: usize,
    /// How many of them must agree.
    pub quorum: usize,
    /// The number of client processes.
    pub clients: usize,
    /// The number of resources that they compete for.
    pub resources: usize,
    /// The ttl of most locks.
    pub ttl: Duration,
    /// The drift factor of the lock: by which share the rates of clocks may differ.
    pub drift_factor: f64,
    /// How much too fast the servers' clocks run, in parts per billion.
    pub server_rate_ppb: i64,
    /// How much too fast the clients' clocks run, in parts per billion.
    pub client_rate_ppb: i64,
    /// Whether these rates are within what the drift factor allows.
    pub rates_are_fine: bool,
    /// The most by which the clients' wall clocks are off.
    pub skew: Duration,
    /// The kinds of faults that are injected.
    pub faults: Vec<FaultKind>,
    /// The number of servers that may ever forget keys.
    pub forgetful_servers: usize,
    /// Whether locks have a restart guard, so that any number of servers may restart, be flushed or fail over. Such a
    /// run is judged by exclusion and by fencing alone: whether a lock could have been had is another matter.
    pub has_guard: bool,
    /// The mean pause between faults.
    pub fault_every: Duration,
    /// The longest that a fault lasts.
    pub fault_lasts: Duration,
    /// How long work and faults go on, in true time.
    pub duration: Duration,
    pub(crate) rules: NetworkRules,
}

/// One of so many seeds has a restart guard, if its servers forget at all.
const GUARDED_SEEDS: u64 = 16;

/// By how much clocks are set forward, or are apart behind a failover, where there is a restart guard.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_millis(500);

const MS: Duration = Duration::from_millis(1);

impl Plan {
    /// Begins a production lock for a client with all that the plan asks of one. It needs a larger quorum than
    /// a majority where servers forget, for instance, or it breaks a rule that it is not to blame for.
    pub fn redlock<N: RedisNode>(
        &self,
        sim: &Sim,
        client: ClientId,
        nodes: impl IntoIterator<Item = N>,
    ) -> RedlockBuilder<N> {
        let builder = match self.has_guard {
            true => Redlock::builder().restart_guard(self.guard()),
            false => Redlock::builder(),
        };
        builder
            .nodes(nodes)
            .runtime(sim.runtime(client))
            .quorum(self.quorum)
            .ttl(self.ttl)
            .drift_factor(self.drift_factor)
            // The same on every machine.
            .owner(format!("{client:?}"))
    }

    /// Makes the plan of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // A generator apart from the world's, so that leaving out a fault leaves the rest alone.
        let mut chance = Chance::new(seed ^ 0x706c_616e);
        let servers = *chance.pick(&[1, 2, 3, 3, 3, 4, 5, 5, 7]).unwrap_or(&3);
        let majority = servers / 2 + 1;
        let larger = majority + chance.index(servers - majority + 1);
        let quorum = if chance.happens(0.25) {
            larger
        } else {
            majority
        };
        let ttl = chance.magnitude(60 * MS, 120_000 * MS);
        let duration = (ttl * 6).clamp(1_500 * MS, 120_000 * MS);
        let mut plan = Self {
            seed,
            workload: chance.bits(),
            workload_named: None,
            servers,
            quorum,
            clients: 2 + chance.index(4),
            resources: 1 + chance.index(2),
            ttl,
            drift_factor: 0.01,
            server_rate_ppb: 0,
            client_rate_ppb: 0,
            rates_are_fine: true,
            skew: chance.magnitude(MS, 4_900 * MS),
            faults: Vec::new(),
            forgetful_servers: servers,
            has_guard: false,
            fault_every: duration / (4 + chance.index(40) as u32),
            fault_lasts: chance.magnitude(MS, duration / 4),
            duration,
            rules: NetworkRules::default(),
        };
        plan.choose_rates(&mut chance);
        plan.choose_faults(&mut chance);
        plan.choose_rules(&mut chance);
        // Last, so that all else stays as it is without it.
        if !plan.faults.is_empty() && chance.happens(0.1) {
            plan.faults.push(FaultKind::StallDriver);
        }
        match seed % GUARDED_SEEDS {
            0 if plan.faults.iter().any(|kind| kind.forgets()) => plan.guarded(),
            _ => plan,
        }
    }

    /// The restart guard of the locks, if they have one.
    pub(crate) fn guard(&self) -> RestartGuard {
        RestartGuard::new(self.longest_ttl()).clock_skew(CLOCK_SKEW)
    }

    /// Returns the longest ttl that a request asks for. Most ask for [`ttl`](Self::ttl).
    #[must_use]
    pub fn longest_ttl(&self) -> Duration {
        match self.has_guard {
            // So that most locks last for as long as a quarantine.
            true => self.ttl,
            false => self.ttl * 2,
        }
    }

    /// Returns the same plan with a restart guard, and without the faults that it does not cover.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.has_guard = true;
        self.forgetful_servers = self.servers;
        self.without(&[FaultKind::Evict])
    }

    /// Returns how many servers may forget keys within a lock's life without harm to exclusion: one
    /// less than any two quorums share.
    #[must_use]
    pub fn survives_forgetful(&self) -> usize {
        (2 * self.quorum).saturating_sub(self.servers + 1)
    }

    fn choose_rates(&mut self, chance: &mut Chance) {
        // One in four runs as near to the limit as it may: servers fast, clients slow, 0.98 %
        // apart, where 1 / 0.99 is 1.01 % apart.
        (self.server_rate_ppb, self.client_rate_ppb) = match chance.below(8) {
            0 | 1 => (4_900_000, -4_900_000),
            2 => (-4_900_000, 4_900_000),
            3 => {
                self.rates_are_fine = false;
                (30_000_000, -30_000_000)
            }
            _ => (
                chance.between(-4_000_000, 4_000_000),
                chance.between(-4_000_000, 4_000_000),
            ),
        };
    }

    fn choose_faults(&mut self, chance: &mut Chance) {
        // One in eight has none at all, the others some, each with a density of its own.
        if chance.happens(0.125) {
            return;
        }
        let density = 0.05 + 0.4 * chance.unit();
        let others = FaultKind::ALL.iter();
        for kind in others.filter(|kind| **kind != FaultKind::StallDriver) {
            // These two put the whole run, or much of it, out of the budget.
            let rare = matches!(kind, FaultKind::LostSuspend | FaultKind::KillClient);
            let density = if rare { density / 8.0 } else { density };
            if chance.happens(density) {
                self.faults.push(*kind);
            }
        }
        // Most runs with servers that forget stay within what their quorum survives.
        match chance.below(4) {
            0 => {}
            1 => self.faults.retain(|kind| !kind.forgets()),
            _ => self.forgetful_servers = self.survives_forgetful(),
        }
    }

    fn choose_rules(&mut self, chance: &mut Chance) {
        let node_timeout = self.node_timeout();
        let rules = &mut self.rules;
        rules.usual = chance.magnitude(MS / 20, node_timeout / 8);
        rules.longest = rules.usual * 4;
        let has = |kind| self.faults.contains(&kind);
        if has(FaultKind::Slow) {
            rules.longest = chance.magnitude(node_timeout, self.ttl.max(2 * node_timeout));
        }
        let mut rate = |kind| {
            if has(kind) {
                0.002 + 0.03 * chance.unit()
            } else {
                0.0
            }
        };
        rules.loses_request = rate(FaultKind::LoseRequests);
        rules.loses_reply = rate(FaultKind::LoseReplies);
        rules.duplicates = rate(FaultKind::Duplicate);
        if has(FaultKind::LateRequests) {
            rules.strays = 0.5;
        }
    }

    /// Returns the node timeout that the lock chooses by itself.
    #[must_use]
    pub fn node_timeout(&self) -> Duration {
        (self.ttl / 10).min(100 * MS)
    }

    /// Returns the most calls that may be in flight at once from one client to one server, and the
    /// most tasks of a client. It is what its workers can send in the time that a server has to
    /// answer, at two commands for a round trip, and some releases that are owed.
    pub(crate) fn most_at_once(&self) -> usize {
        const WORKERS: u128 = 2;
        let round_trip = self.rules.usual.as_nanos() / 2;
        let rounds = 2 * self.node_timeout().as_nanos() / round_trip.max(1);
        usize::try_from(100 + 2 * WORKERS * rounds).unwrap_or(usize::MAX)
    }

    /// Returns the same plan with another workload.
    #[must_use]
    pub fn with_workload(mut self, name: &'static str) -> Self {
        self.workload_named = Some(name);
        self
    }

    /// Returns the same plan with these faults and no others.
    #[must_use]
    pub fn with_faults(mut self, kinds: &[FaultKind]) -> Self {
        self.faults = kinds.to_vec();
        let mut chance = Chance::new(self.seed ^ 0x7275_6c65);
        self.choose_rules(&mut chance);
        self
    }

    /// Returns the same plan without these kinds of faults.
    #[must_use]
    pub fn without(mut self, kinds: &[FaultKind]) -> Self {
        self.faults.retain(|kind| !kinds.contains(kind));
        let mut rules = NetworkRules {
            usual: self.rules.usual,
            longest: self.rules.usual * 4,
            ..NetworkRules::default()
        };
        let has = |kind| self.faults.contains(&kind);
        if has(FaultKind::Slow) {
            rules.longest = self.rules.longest;
        }
        if has(FaultKind::LoseRequests) {
            rules.loses_request = self.rules.loses_request;
        }
        if has(FaultKind::LoseReplies) {
            rules.loses_reply = self.rules.loses_reply;
        }
        if has(FaultKind::Duplicate) {
            rules.duplicates = self.rules.duplicates;
        }
        if has(FaultKind::LateRequests) {
            rules.strays = self.rules.strays;
        }
        self.rules = rules;
        self
    }
}
