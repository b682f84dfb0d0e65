//! Injects faults.

use std::time::Duration;

use super::fault::{EPOCH, Fault, FaultKind, LONGEST_LAG};
use super::plan::CLOCK_SKEW;
use super::server::ServerId;
use super::server_fault::ServerFault;
use super::tasks::ClientId;
use super::world::World;

impl World {
    /// Injects a fault now.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let Fault {
            kind,
            server,
            client,
            lasting,
        } = fault;
        let until = self.now + lasting;
        self.note(|| {
            let (server, client) = (server.0, client.0);
            let name = kind.name();
            format!("FAULT {name} (node {server}, client {client}, {lasting:?})")
        });
        self.hash.add(0xfa_0000 | kind as u64);
        match kind {
            FaultKind::Cut => self.each_link(client, server, Self::cut),
            FaultKind::HalfOpen => self.each_link(client, server, Self::deafen),
            FaultKind::Lag => {
                for link in self.links_of(|id| id.client == client && id.server == server) {
                    self.lag(link, lasting.min(LONGEST_LAG));
                }
            }
            FaultKind::Partition | FaultKind::PartitionRequests | FaultKind::PartitionReplies => {
                let id = self.endpoint_id(client, server);
                let endpoint = self.endpoint(id);
                if kind != FaultKind::PartitionReplies {
                    endpoint.requests_blocked_until = until;
                }
                if kind != FaultKind::PartitionRequests {
                    endpoint.replies_blocked_until = until;
                }
            }
            FaultKind::Stall => self.servers[server.0].stalled_until = until,
            FaultKind::StallDriver => {
                for link in self.links_of(|id| id.client == client && id.server == server) {
                    self.stall(link, lasting);
                }
            }
            FaultKind::PauseClient => self.pause(client, lasting),
            FaultKind::KillClient => self.kill(client),
            FaultKind::WallJump => {
                // To another error that is within bounds.
                let error = self.jump(self.skew);
                self.set_wall(client, error);
            }
            FaultKind::LostSuspend => {
                let now = self.now;
                self.pause(client, lasting);
                let nanos = i64::try_from(lasting.as_nanos()).unwrap_or(i64::MAX);
                // Its clock stands still while it is paused: as if it jumped back afterwards.
                self.ledger.clocks_failed = true;
                self.after(lasting, move |world| {
                    let resumed = world.now.max(now);
                    let client = &mut world.clients[client.0];
                    client.monotonic.jump(resumed, -nanos);
                    // The wall clock has run ahead.
                    client.wall_set_at = resumed;
                });
            }
            _ => self.inject_at(kind, server, lasting),
        }
    }

    fn inject_at(&mut self, kind: FaultKind, server: ServerId, lasting: Duration) {
        let now = self.now;
        let until = now + lasting;
        let found = &mut self.servers[server.0];
        match kind {
            FaultKind::Crash | FaultKind::CrashEmpty | FaultKind::CrashLastSecond => {
                self.crash(kind, server, lasting);
            }
            FaultKind::Failover => {
                found.roll_back(now);
                found.restart();
                found.forget_scripts();
                self.forgets(server, kind);
                // The replica's clock is another one.
                let nanos = self.jump(CLOCK_SKEW);
                self.servers[server.0].clock.jump(now, nanos);
                self.each_link_of(server, Self::cut);
            }
            FaultKind::Evict => {
                let keys = [found.facts.keys(), found.counters(now)].concat();
                if let Some(key) = self.chance.pick(&keys).cloned() {
                    self.servers[server.0].evict(&key, now);
                    self.forgets(server, kind);
                }
            }
            FaultKind::FlushAll => {
                found.forget_keys();
                self.forgets(server, kind);
            }
            FaultKind::ScriptFlush => found.forget_scripts(),
            FaultKind::Oom => found.set_fault(ServerFault::Oom, until),
            FaultKind::ReadOnly => found.set_fault(ServerFault::ReadOnly, until),
            FaultKind::Misconf => found.set_fault(ServerFault::Misconf, until),
            FaultKind::Loading => found.set_fault(ServerFault::Loading, until),
            FaultKind::NoPerm => found.set_fault(ServerFault::NoPerm, until),
            FaultKind::ClockForward | FaultKind::ClockBack => {
                let most = match self.has_guard {
                    true => lasting.min(CLOCK_SKEW),
                    false => lasting,
                };
                let nanos = self.jump(most).saturating_abs();
                let is_forward = kind == FaultKind::ClockForward;
                let found = &mut self.servers[server.0];
                found
                    .clock
                    .jump(now, if is_forward { nanos } else { -nanos });
                // A server that forgot all just before has nothing that could end early, and is in quarantine. The guard
                // allows for one leap meanwhile.
                let is_empty = found.facts.keys().is_empty();
                let is_harmless = self.has_guard && is_empty && !found.has_leapt;
                found.has_leapt |= is_forward;
                if is_forward && !is_harmless {
                    self.forgets(server, kind);
                } else if !is_forward {
                    // Keys that were dead may be there again.
                    found.facts.excuse_all();
                }
            }
            _ => {}
        }
    }

    fn crash(&mut self, kind: FaultKind, server: ServerId, lasting: Duration) {
        let now = self.now;
        let found = &mut self.servers[server.0];
        if !found.is_up {
            return;
        }
        found.is_up = false;
        found.restart();
        found.forget_scripts();
        match kind {
            FaultKind::CrashEmpty => {
                found.forget_keys();
            }
            FaultKind::CrashLastSecond => found.roll_back(now),
            _ => {}
        }
        if kind != FaultKind::Crash {
            self.forgets(server, kind);
        }
        self.each_link_of(server, Self::cut);
        self.after(lasting, move |world| {
            let loading = world.chance.duration(Duration::ZERO, lasting / 4);
            let until = (world.now + loading).min(world.faults_end);
            let found = &mut world.servers[server.0];
            found.is_up = true;
            found.set_fault(ServerFault::Loading, until);
        });
    }

    fn jump(&mut self, most: Duration) -> i64 {
        let most = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX / 2);
        self.chance.between(-most, most)
    }

    /// Sets a client's wall clock to be off by this many nanoseconds.
    pub(crate) fn set_wall(&mut self, client: ClientId, error: i64) {
        let shown = EPOCH + self.now;
        let by = Duration::from_nanos(error.unsigned_abs());
        let shown = if error < 0 { shown - by } else { shown + by };
        let wall = &mut self.clients[client.0].wall;
        let is = wall.at(self.now);
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let by = if shown < is {
            -nanos(is - shown)
        } else {
            nanos(shown - is)
        };
        wall.jump(self.now, by);
        self.clients[client.0].wall_set_at = self.now;
    }

    pub(crate) fn pause(&mut self, client: ClientId, lasting: Duration) {
        if self.clients[client.0].is_paused {
            return;
        }
        self.clients[client.0].is_paused = true;
        self.clients[client.0].paused_until = self.now + lasting;
        self.after(lasting, move |world| {
            world.clients[client.0].is_paused = false;
            world.resumed.push(client);
        });
    }

    fn kill(&mut self, client: ClientId) {
        self.clients[client.0].is_dead = true;
        self.doomed.push(client);
    }

    fn each_link(&mut self, client: ClientId, server: ServerId, act: fn(&mut Self, usize)) {
        for link in self.links_of(|id| id.client == client && id.server == server) {
            act(self, link);
        }
    }

    fn each_link_of(&mut self, server: ServerId, act: fn(&mut Self, usize)) {
        for link in self.links_of(|id| id.server == server) {
            act(self, link);
        }
    }
}
