//! Bad input, found before any IO.

use std::time::Duration;

use crate::display::Ms;

/// A value that cannot work, named together with the limit it broke. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The ttl is below what Redis can count.
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
    /// The ttl would be used up before anybody could rely on the lock.
    #[error(
        "ttl {} leaves no validity: clock drift takes {} of it and the node timeout {}",
        Ms(*ttl), Ms(*drift), Ms(*node_timeout)
    )]
    TtlLeavesNothing {
        /// The ttl given.
        ttl: Duration,
        /// The allowance for clocks of different rate.
        drift: Duration,
        /// How long a node may take to answer.
        node_timeout: Duration,
    },
    /// `hold_at_least` is longer than the key lives.
    #[error("hold_at_least {} is above the ttl of {}", Ms(*hold), Ms(*ttl))]
    HoldAboveTtl {
        /// The `hold_at_least` given.
        hold: Duration,
        /// The ttl that it must not exceed.
        ttl: Duration,
    },
    /// Extensions would come so rarely that one failure loses the lock, or without a pause.
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
    /// A lock needs a name.
    #[error("resource is empty, at least 1 byte is needed")]
    ResourceEmpty,
    /// A request for several resources names none.
    #[error("no resources given, at least 1 is needed")]
    NoResources,
    /// A request names more resources than one command can carry.
    #[error("{count} resources given, above the maximum of {max}")]
    TooManyResources {
        /// How many were given.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A request names a resource twice.
    #[error("resource {resource:?} is listed twice")]
    DuplicateResource {
        /// The resource, as text.
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
}

/// Settings that no lock can be built from. Nothing was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no node to ask.
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
    /// A quorum that two holders could reach at once, or that nobody could.
    #[error("quorum {quorum} is outside {}..={nodes} for {nodes} nodes", nodes / 2 + 1)]
    Quorum {
        /// The quorum given.
        quorum: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// A drift factor that is no share of the ttl.
    #[error("drift factor {factor} is outside 0..1")]
    DriftFactor {
        /// The factor given.
        factor: f64,
    },
    /// A node that may take no time can never answer.
    #[error("{setting} is 0 ms, it must be longer")]
    ZeroTimeout {
        /// The setting's name.
        setting: &'static str,
    },
    /// A default for requests that no request could be made with.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
}
