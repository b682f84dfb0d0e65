//! What all instances of one run agree on.

use std::iter::successors;
use std::time::{Duration, SystemTime};

use lock_core::tick::{Tick, TickJob, TickJobBuilder};

use crate::BoxError;
use crate::args::Args;
use crate::strategy::Strategy;

/// Instances need a moment to start, processes more than tasks.
const TASKS_START_WITHIN: Duration = Duration::from_millis(500);
const PROCESSES_START_WITHIN: Duration = Duration::from_millis(1500);

/// All instances are down from so long before a tick until so long after it, by the true time. Their clocks
/// are off by less.
const DOWN_BEFORE: Duration = Duration::from_millis(600);
const DOWN_AFTER: Duration = Duration::from_millis(400);

/// When the job is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Every(Duration),
    /// A cron expression, in UTC.
    Cron(String),
}

/// The ticks to run, the job's name, and how to decide who runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Another one in each run of this program, or the claims of the last run would count.
    pub(crate) job: String,
    pub(crate) schedule: Schedule,
    /// In order, at least one.
    pub(crate) ticks: Vec<Tick>,
    pub(crate) strategy: Strategy,
}

/// Which of the instances one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Me {
    /// From 1 on.
    pub(crate) number: usize,
    /// How far this instance's clock is ahead, in milliseconds.
    pub(crate) clock_offset: i64,
    /// Which of its lives this is, from 0 on.
    pub(crate) life: usize,
}

/// From when until when an instance lives; `None` is the start or the end of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) from: Option<SystemTime>,
    pub(crate) until: Option<SystemTime>,
}

impl Schedule {
    pub(crate) fn job(&self, name: &str) -> TickJobBuilder {
        match self {
            Self::Every(period) => TickJob::every(name, *period),
            Self::Cron(expression) => TickJob::cron(name, expression, "UTC"),
        }
    }
}

impl Plan {
    /// The plan for the ticks that come after one.
    pub(crate) fn new(job: &str, after: Tick, args: &Args) -> Result<Self, BoxError> {
        let schedule = args.schedule.job("job").build()?;
        let next = |tick: &Tick| schedule.tick_after(*tick).ok().flatten();
        let ticks = successors(next(&after), next).take(args.ticks.try_into()?);
        let ticks: Vec<_> = ticks.collect();
        let (count, wanted) = (ticks.len(), args.ticks);
        if ticks.len() as u64 != wanted {
            return Err(format!("--ticks {wanted}: the schedule has {count} more").into());
        }
        Ok(Self {
            job: job.to_owned(),
            schedule: args.schedule.clone(),
            ticks,
            strategy: args.strategy,
        })
    }

    /// A plan whose first tick leaves the instances time to start.
    pub(crate) fn starting_soon(args: &Args) -> Result<Self, BoxError> {
        let now = SystemTime::now();
        let start_within = if args.nodes.is_empty() {
            TASKS_START_WITHIN
        } else {
            PROCESSES_START_WITHIN
        };
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH)?;
        let job = format!("{:x}-{:x}", since_epoch.as_micros(), std::process::id());
        Self::new(&job, Tick::at(now + start_within)?, args)
    }

    pub(crate) fn first(&self) -> Tick {
        self.ticks[0]
    }

    pub(crate) fn last(&self) -> Tick {
        self.ticks[self.ticks.len() - 1]
    }

    /// With a cron schedule, all instances are restarted across this tick.
    pub(crate) fn restarted_at(&self) -> Option<Tick> {
        match self.schedule {
            Schedule::Cron(_) if self.ticks.len() > 2 => Some(self.ticks[self.ticks.len() / 2]),
            _ => None,
        }
    }

    /// The lives of each instance.
    pub(crate) fn lives(&self) -> Vec<Life> {
        match self.restarted_at().and_then(Tick::system_time) {
            None => vec![Life::default()],
            Some(at) => vec![
                Life {
                    from: None,
                    until: Some(at - DOWN_BEFORE),
                },
                Life {
                    from: Some(at + DOWN_AFTER),
                    until: None,
                },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    fn plan(words: &[&str], after: u64) -> Result<Plan, BoxError> {
        let words = ["cron"].iter().chain(words).map(Into::into);
        Plan::new(
            "job",
            Tick::from_millis(after),
            &args::parse(words)?.unwrap(),
        )
    }

    #[test]
    fn a_plan_has_the_ticks_of_its_schedule() {
        let millis = |plan: Plan| {
            let ticks = plan.ticks.into_iter().map(Tick::as_millis);
            ticks.collect::<Vec<_>>()
        };
        let period = plan(&["--ticks", "3", "--period", "500"], 999).unwrap();
        assert_eq!(period.lives(), [Life::default()]);
        assert_eq!(millis(period), [1_000, 1_500, 2_000]);
        let cron = ["--schedule", "*/2 * * * * *", "--ticks"];
        let two = plan(&[&cron[..], &["2"]].concat(), 3_000).unwrap();
        assert_eq!(two.restarted_at(), None);
        assert_eq!(millis(two), [4_000, 6_000]);
        let once = ["--schedule", "0 0 0 1 1 * 2000"];
        let error = plan(&once, 0).unwrap_err().to_string();
        assert_eq!(error, "--ticks 10: the schedule has 1 more");
    }

    #[test]
    fn all_instances_are_down_at_one_tick_of_a_cron_schedule() {
        let words = ["--schedule", "*/2 * * * * *", "--ticks", "3"];
        let plan = plan(&words, 3_000).unwrap();
        assert_eq!(plan.restarted_at(), Some(Tick::from_millis(6_000)));
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(6);
        let [first, second] = plan.lives()[..] else {
            panic!("not two lives");
        };
        assert!(first.until.unwrap() < tick && second.from.unwrap() > tick);
        assert_eq!((first.from, second.until), (None, None));
    }
}
