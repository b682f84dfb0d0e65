//! The command line.

#[path = "../shared/args.rs"]
mod shared;

use std::time::Duration;

/// What was asked for.
pub(crate) type Args = shared::Args<Effort>;

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Effort {
    /// The result is the median of so many rounds.
    pub(crate) rounds: usize,
    /// How often the sides take turns in one round.
    pub(crate) turns: usize,
    /// How long one turn of one side is.
    pub(crate) turn: Duration,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        turns: 5,
        turn: Duration::from_millis(120),
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 5,
        turns: 2,
        turn: Duration::from_millis(60),
    };

    /// How long each side is measured in one round.
    pub(crate) fn round(&self) -> Duration {
        self.turn * u32::try_from(self.turns).unwrap_or(u32::MAX)
    }
}
