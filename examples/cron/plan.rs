//! What all instances of one run agree on.

use std::time::{Duration, SystemTime};

use lock_core::tick::{Period, Tick};

use crate::BoxError;
use crate::args::Args;
use crate::strategy::Strategy;

/// Instances need a moment to start, processes more than tasks.
const TASKS_START_WITHIN: Duration = Duration::from_millis(500);
const PROCESSES_START_WITHIN: Duration = Duration::from_millis(1500);

/// The ticks to run, the job's name, and how to decide who runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Another one in each run of this program, or the claims of the last run would count.
    pub(crate) job: String,
    pub(crate) first: Tick,
    pub(crate) ticks: u64,
    pub(crate) period: Duration,
    pub(crate) strategy: Strategy,
}

/// Which of the instances one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Me {
    /// From 1 on.
    pub(crate) number: usize,
    /// How far this instance's clock is ahead, in milliseconds.
    pub(crate) clock_offset: i64,
}

impl Me {
    pub(crate) fn new(number: usize, clock_offset: i64) -> Self {
        Self {
            number,
            clock_offset,
        }
    }
}

impl Plan {
    pub(crate) fn new(job: &str, first: Tick, args: &Args) -> Self {
        Self {
            job: job.to_owned(),
            first,
            ticks: args.ticks,
            period: args.period,
            strategy: args.strategy,
        }
    }

    /// A plan whose first tick leaves the instances time to start.
    pub(crate) fn starting_soon(args: &Args) -> Result<Self, BoxError> {
        let now = SystemTime::now();
        let start_within = if args.nodes.is_empty() {
            TASKS_START_WITHIN
        } else {
            PROCESSES_START_WITHIN
        };
        let first = Period::new(args.period)?.tick_after(now + start_within)?;
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH)?;
        let job = format!("{:x}-{:x}", since_epoch.as_micros(), std::process::id());
        Ok(Self::new(&job, first, args))
    }

    /// The tick with this index, from 0 on.
    pub(crate) fn tick(&self, index: u64) -> Tick {
        let millis = u64::try_from(self.period.as_millis()).unwrap_or(u64::MAX);
        let after_first = index.saturating_mul(millis);
        Tick::from_millis(self.first.as_millis().saturating_add(after_first))
    }

    /// The last tick.
    pub(crate) fn last(&self) -> Tick {
        self.tick(self.ticks - 1)
    }
}
