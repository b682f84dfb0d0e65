//! What can go wrong.

use std::time::Duration;

use super::server::ServerId;
use super::tasks::ClientId;

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
pub(crate) const LONGEST_LAG: Duration = Duration::from_secs(3);

/// One fault: what, where, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// The server, if one is concerned.
    pub server: ServerId,
    /// The client, if one is concerned.
    pub client: ClientId,
    /// For how long, if it lasts.
    pub lasting: Duration,
}
