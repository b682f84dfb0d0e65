//! The command line.

#[path = "../shared/args.rs"]
mod shared;

use std::time::Duration;

/// What was asked for.
pub(crate) type Args = shared::Args<Effort>;

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Effort {
    /// The result is the median of so many rounds while all servers are well; of throughput, of all
    /// their turns.
    pub(crate) rounds: usize,
    /// How often the sides take turns in one round.
    pub(crate) turns: usize,
    /// How long one turn of one side is.
    pub(crate) turn: Duration,
    /// The same for servers that fail: so often they do.
    pub(crate) failures: usize,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        turns: 10,
        turn: Duration::from_millis(120),
        failures: 11,
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 5,
        turns: 2,
        turn: Duration::from_millis(60),
        failures: 5,
    };
}
