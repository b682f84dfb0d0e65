//! The faults that can be injected.

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
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns its name on the command line and in tables.
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
    /// A connection is half open: the server has forgotten it, nothing comes back, and the client
    /// is not told.
    HalfOpen: "half-open";
    /// Connections break before requests have run.
    LoseRequests: "lose-requests";
    /// Connections break behind requests that have run.
    LoseReplies: "lose-replies";
    /// Requests of a broken connection run later nevertheless.
    LateRequests: "late-requests";
    /// Requests run twice.
    Duplicate: "duplicate";
    /// Some messages take very long.
    Slow: "slow";
    /// A connection becomes slow for the rest of its life; a new one is not.
    Lag: "lag";
    /// A client and a server do not reach each other for a while.
    Partition: "partition";
    /// A server hears nothing from a client for a while.
    PartitionRequests: "partition-requests";
    /// A client hears nothing from a server for a while.
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
    /// A server is flushed.
    FlushAll: "flush-all";
    /// A server is made to forget its scripts.
    ScriptFlush: "script-flush";
    /// A server's memory is full.
    Oom: "oom";
    /// A server is a replica for a while.
    ReadOnly: "read-only";
    /// A server's disk is full for a while.
    Misconf: "misconf";
    /// A server is loading its data for a while.
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
    /// A client's clock does not count a suspension. No lock that is a lease survives that.
    LostSuspend: "lost-suspend";
    /// A client's connection to a server stands still for a while, as if its runtime were blocked. A new
    /// one does not.
    StallDriver: "stall-driver";
}

impl FaultKind {
    /// Returns the kind with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns whether it makes servers forget keys before their time.
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

    /// Returns whether a restart guard keeps a server that forgot by this from granting locks.
    pub(crate) fn is_guarded(self) -> bool {
        self.forgets() && !matches!(self, Self::Evict | Self::ClockForward)
    }

    /// Returns whether it is a rule of the network rather than a single event.
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

/// What a correct wall clock shows when a simulation begins: 2030-01-01.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_893_456_000);

/// The most by which a connection that lags delivers later than usual.
pub(crate) const LONGEST_LAG: Duration = Duration::from_secs(3);

/// The longest that a connection stands still: what it wrote then would be settled by no rule.
pub(crate) const LONGEST_STANDSTILL: Duration = Duration::from_secs(60);

/// A fault to inject: what, where, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The server that it concerns; of no meaning for a fault of a client.
    pub server: ServerId,
    /// The client that it concerns; of no meaning for a fault of a server.
    pub client: ClientId,
    /// How long it lasts; of no meaning for a fault that is over at once.
    pub lasting: Duration,
}
