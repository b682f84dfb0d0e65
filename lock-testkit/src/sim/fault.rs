//! What can go wrong.

use std::time::Duration;

use super::server::{ServerFault, ServerId};
use super::tasks::ClientId;
use super::world::World;

macro_rules! fault_kinds {
    ($($(#[doc = $about:literal])* $name:ident: $text:literal;)*) => {
        /// A kind of fault. Each seed has some of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FaultKind {
            $($(#[doc = $about])* $name,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name on the command line and in tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

fault_kinds! {
    /// A connection breaks.
    Cut: "cut";
    /// A connection vanishes on the server's side only: nothing comes back, and nobody says so.
    HalfOpen: "half-open";
    /// Connections break before requests have run.
    LoseRequests: "lose-requests";
    /// Connections break behind requests that have run.
    LoseReplies: "lose-replies";
    /// Requests of broken connections run later nevertheless.
    LateRequests: "late-requests";
    /// Requests run twice.
    Duplicate: "duplicate";
    /// Some messages take very long.
    Slow: "slow";
    /// A connection becomes slow for the rest of its life; a new one is not.
    Lag: "lag";
    /// A client and a server do not reach each other for a while.
    Partition: "partition";
    /// Nothing reaches a server from a client for a while.
    PartitionRequests: "partition-requests";
    /// Nothing comes back from a server to a client for a while.
    PartitionReplies: "partition-replies";
    /// A server stops for a while, as by SIGSTOP.
    Stall: "stall";
    /// A server crashes and comes back with all its keys.
    Crash: "crash";
    /// A server crashes and comes back empty.
    CrashEmpty: "crash-empty";
    /// A server crashes and comes back without its last second.
    CrashLastSecond: "crash-last-second";
    /// A replica that lags behind takes a server's place.
    Failover: "failover";
    /// A server evicts a key.
    Evict: "evict";
    /// Somebody flushes a server.
    FlushAll: "flush-all";
    /// Somebody makes a server forget its scripts.
    ScriptFlush: "script-flush";
    /// A server's memory is full.
    Oom: "oom";
    /// A server is a replica for a while.
    ReadOnly: "read-only";
    /// A server's disk is full for a while.
    Misconf: "misconf";
    /// A server reads its data for a while.
    Loading: "loading";
    /// A server denies everything for a while.
    NoPerm: "no-perm";
    /// A client's process stops for a while.
    PauseClient: "pause-client";
    /// A client's process dies.
    KillClient: "kill-client";
    /// A server's clock jumps forward, so that keys end early.
    ClockForward: "clock-forward";
    /// A server's clock jumps back, so that keys live longer.
    ClockBack: "clock-back";
    /// A client's wall clock jumps.
    WallJump: "wall-jump";
    /// A client's clock does not count a suspension: beyond what any lock on leases survives.
    LostSuspend: "lost-suspend";
}

impl FaultKind {
    /// The kind of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether it makes servers forget keys before their time.
    #[must_use]
    pub fn forgets(self) -> bool {
        matches!(
            self,
            Self::CrashEmpty
                | Self::CrashLastSecond
                | Self::Failover
                | Self::Evict
                | Self::FlushAll
                | Self::ClockForward
        )
    }

    /// Whether it is a rule of the network and no single event.
    pub(crate) fn is_rule(self) -> bool {
        matches!(
            self,
            Self::LoseRequests
                | Self::LoseReplies
                | Self::LateRequests
                | Self::Duplicate
                | Self::Slow
        )
    }
}

/// What true wall clocks show when a simulation begins: 2030-01-01.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_893_456_000);

/// How much later than usual a connection that lags delivers at most.
const LONGEST_LAG: Duration = Duration::from_secs(3);

/// One fault: what, where, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// What.
    pub kind: FaultKind,
    /// The server, if one is concerned.
    pub server: ServerId,
    /// The client, if one is concerned.
    pub client: ClientId,
    /// For how long, if it lasts.
    pub lasting: Duration,
}

impl World {
    /// Makes something go wrong now.
    pub(crate) fn strike(&mut self, strike: Strike) {
        let Strike {
            kind,
            server,
            client,
            lasting,
        } = strike;
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
            FaultKind::PauseClient => self.pause(client, lasting),
            FaultKind::KillClient => self.kill(client),
            FaultKind::WallJump => {
                // To another error within the allowed ones.
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
                    world.clients[client.0].monotonic.jump(resumed, -nanos);
                });
            }
            _ => self.strike_server(kind, server, lasting),
        }
    }

    fn strike_server(&mut self, kind: FaultKind, server: ServerId, lasting: Duration) {
        let now = self.now;
        let until = now + lasting;
        let found = &mut self.servers[server.0];
        match kind {
            FaultKind::Crash | FaultKind::CrashEmpty | FaultKind::CrashLastSecond => {
                self.crash(kind, server, lasting);
            }
            FaultKind::Failover => {
                found.roll_back(now);
                found.forget_scripts();
                self.forgets(server);
                // The replica's clock is another one.
                let nanos = self.jump(Duration::from_millis(500));
                self.servers[server.0].clock.jump(now, nanos);
                self.each_link_of(server, Self::cut);
            }
            FaultKind::Evict => {
                let keys = found.facts.keys().cloned().collect::<Vec<_>>();
                if let Some(key) = self.chance.pick(&keys).cloned() {
                    self.servers[server.0].evict(&key, now);
                    self.forgets(server);
                }
            }
            FaultKind::FlushAll => {
                found.forget_keys();
                self.forgets(server);
            }
            FaultKind::ScriptFlush => found.forget_scripts(),
            FaultKind::Oom => found.set_fault(ServerFault::Oom, until),
            FaultKind::ReadOnly => found.set_fault(ServerFault::ReadOnly, until),
            FaultKind::Misconf => found.set_fault(ServerFault::Misconf, until),
            FaultKind::Loading => found.set_fault(ServerFault::Loading, until),
            FaultKind::NoPerm => found.set_fault(ServerFault::NoPerm, until),
            FaultKind::ClockForward | FaultKind::ClockBack => {
                let nanos = self.jump(lasting).saturating_abs();
                let is_forward = kind == FaultKind::ClockForward;
                let found = &mut self.servers[server.0];
                found
                    .clock
                    .jump(now, if is_forward { nanos } else { -nanos });
                if is_forward {
                    self.forgets(server);
                } else {
                    // Keys that were dead may be there again.
                    found.mark_ghosts();
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
        found.forget_scripts();
        match kind {
            FaultKind::CrashEmpty => {
                found.forget_keys();
            }
            FaultKind::CrashLastSecond => found.roll_back(now),
            _ => {}
        }
        if kind != FaultKind::Crash {
            self.forgets(server);
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

    /// Sets a client's wall clock so many nanoseconds off.
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
    }

    pub(crate) fn pause(&mut self, client: ClientId, lasting: Duration) {
        if self.clients[client.0].is_paused {
            return;
        }
        self.clients[client.0].is_paused = true;
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
