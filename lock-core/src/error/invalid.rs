//! Bad input, found before any IO.

use std::time::Duration;

use crate::display::{Ms, Name};
use crate::fencing::FencingToken;

/// A value that cannot work, with the limit that it breaks. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The ttl is shorter than the shortest that Redis can count.
    #[error("ttl {} is below the minimum of 1 ms", Ms(*ttl))]
    TtlTooShort {
        /// The ttl given.
        ttl: Duration,
    },
    /// The ttl is above a year.
    #[error("ttl {} is above the maximum of 365 days", Ms(*ttl))]
    TtlTooLong {
        /// The ttl given.
        ttl: Duration,
    },
    /// The ttl would be used up before the lock could be relied on.
    #[error(
        "ttl {} leaves no validity: clock drift takes {} of it and the node timeout {}",
        Ms(*ttl), Ms(*drift), Ms(*node_timeout)
    )]
    TtlLeavesNothing {
        /// The ttl given.
        ttl: Duration,
        /// The allowance for clocks that run at different rates.
        drift: Duration,
        /// How long a node may take to answer.
        node_timeout: Duration,
    },
    /// The ttl is longer than nodes that may have forgotten a lock wait for its end.
    #[error("ttl {} is above the max_ttl of the restart guard, {}", Ms(*ttl), Ms(*max))]
    TtlAboveGuard {
        /// The ttl given.
        ttl: Duration,
        /// The `max_ttl` of the guard.
        max: Duration,
    },
    /// The nodes do not take the keys of the lock and of the restart guard in one command. This alone may be found out
    /// after something was sent, since only the nodes know.
    #[error(
        "the restart guard does not work on nodes of a cluster, which do not take its key together with that of a lock"
    )]
    GuardApart,
    /// `hold_at_least` is longer than the key lives.
    #[error("hold_at_least {} is above the ttl of {}", Ms(*hold), Ms(*ttl))]
    HoldAboveTtl {
        /// The `hold_at_least` given.
        hold: Duration,
        /// The ttl that it must not exceed.
        ttl: Duration,
    },
    /// Extensions would follow each other without a pause, or so rarely that one failure loses the
    /// lock.
    #[error(
        "extend_interval {} is outside 1 ms..={} (two thirds of the validity)",
        Ms(*interval), Ms(*max)
    )]
    ExtendInterval {
        /// The interval given.
        interval: Duration,
        /// The longest one for this ttl.
        max: Duration,
    },
    /// The resource has no name.
    #[error("resource is empty, at least 1 byte is needed")]
    ResourceEmpty,
    /// The request is for several resources and names none.
    #[error("no resources given, at least 1 is needed")]
    NoResources,
    /// The request names more resources than one command may have.
    #[error("{count} resources given, above the maximum of {max}")]
    TooManyResources {
        /// How many were given.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The request names a resource twice.
    #[error("resource \"{resource}\" is listed twice")]
    DuplicateResource {
        /// The resource, as text that may be cut.
        resource: String,
    },
    /// The resource with its prefix is too long for a key.
    #[error("resource with its prefix has {len} bytes, above the maximum of {max} bytes")]
    ResourceTooLong {
        /// The length of prefix and resource together.
        len: usize,
        /// The longest key.
        max: usize,
    },
    /// The key of a lock would end as those of fencing counters do.
    #[error("resource \"{resource}\" ends with the reserved suffix \"{suffix}\"")]
    ReservedSuffix {
        /// The resource, as text that may be cut.
        resource: String,
        /// What no resource may end with.
        suffix: &'static str,
    },
    /// The floor leaves too little room for tokens above it.
    #[error("fencing floor {floor} is above the maximum of {max}")]
    FencingFloor {
        /// The floor given.
        floor: FencingToken,
        /// The largest one.
        max: FencingToken,
    },
    /// The request asks for a fencing token, and this lock has none.
    #[error("fencing was asked for, but this lock has no fencing tokens")]
    FencingUnsupported,
    /// The request asks for a fencing token, and the nodes do not take all of its keys in one command. This
    /// alone may be found out after something was sent, since only the nodes know.
    #[error(
        "fencing was asked for, but the nodes do not take the keys of the lock and of its fencing counter in one \
         command ({keys} keys in all): on a cluster they must share a slot"
    )]
    FencingApart {
        /// How many keys that would be: two for each resource.
        keys: usize,
    },
}

/// Why a lock cannot be built with these settings. Nothing was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There are no nodes to ask.
    #[error("no nodes given, at least 1 is needed")]
    NoNodes,
    /// There are more nodes than the algorithm supports.
    #[error("{nodes} nodes given, above the maximum of {max}")]
    TooManyNodes {
        /// How many were given.
        nodes: usize,
        /// How many there may be.
        max: usize,
    },
    /// The same server would vote twice.
    #[error("node {label} is listed twice, each node must be an independent server")]
    DuplicateNode {
        /// The label that two nodes share.
        label: String,
    },
    /// Two holders could reach this quorum at once, or no holder ever could.
    #[error("quorum {quorum} is outside {}..={nodes} for {nodes} nodes", nodes / 2 + 1)]
    Quorum {
        /// The quorum given.
        quorum: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// The drift factor is not in `0.0..1.0`.
    #[error("drift factor {factor} is outside 0..1")]
    DriftFactor {
        /// The factor given.
        factor: f64,
    },
    /// The owner cannot stand behind a token.
    #[error("owner has {len} bytes, at most {max} are possible, and no control characters: \"{}\"", Name(owner.as_bytes()))]
    Owner {
        /// The owner given.
        owner: String,
        /// Its length in bytes.
        len: usize,
        /// The longest one.
        max: usize,
    },
    /// No node could answer within this timeout.
    #[error("{setting} is 0 ms, it must be longer")]
    ZeroTimeout {
        /// The setting's name.
        setting: &'static str,
    },
    /// Fencing counters would be forgotten too soon, or never.
    #[error(
        "fencing_retention {} is outside {}..={}",
        Ms(*retention), Ms(*min), Ms(*max)
    )]
    FencingRetention {
        /// The retention given.
        retention: Duration,
        /// The shortest one: the ttl.
        min: Duration,
        /// The longest one: 365 days.
        max: Duration,
    },
    /// A node that may have forgotten locks would grant none for too long.
    #[error("the restart guard asks for a quarantine of {}, above the maximum of {}", Ms(*quarantine), Ms(*max))]
    Quarantine {
        /// The quarantine that the guard asks for.
        quarantine: Duration,
        /// The longest one: 365 days.
        max: Duration,
    },
    /// A restart guard has a key of its own, which goes with each acquire.
    #[error("a restart guard cannot be used with one_key_per_command")]
    GuardApart,
    /// A default for requests cannot work with any request.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
}
