//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use examples::args::{number, urls};
use lexopt::prelude::*;
use lock_core::tick::Tick;

use crate::BoxError;
use crate::clock;
use crate::nodes;
use crate::plan::{Me, Plan, Schedule};
use crate::strategy::Strategy;

pub(crate) const HELP: &str = "\
A job that is scheduled every second, or by a cron expression, on several instances whose clocks are up to
300 ms apart.

Usage: cargo run --release --example cron -- [OPTIONS]

Options:
  --nodes URL,URL,...  Real Redis servers, and a process for each instance.
                       Default: 5 in-process nodes, and a task for each instance.
  --instances N        How many instances run the job (1 to 100, default 4).
  --ticks N            How many ticks to run (1 to 100000, default 10).
  --period MS          Milliseconds from tick to tick (1 to 86400000, default 1000).
  --schedule CRON      A cron expression in UTC, in place of a period; with six fields, the first are
                       seconds. All instances are then restarted across one of the ticks.
  --strategy NAME      tick (default): each tick is claimed by its nominal instant.
                       release-after-run: a lock around the run. Ticks run twice.
                       hold: a lock for 1.5 periods. Ticks are missed.
  --help               Prints this.

The exit code is 0 if each tick ran exactly once, 1 if not, 2 if the options are wrong.";

const INSTANCES: RangeInclusive<u64> = 1..=100;
const TICKS: RangeInclusive<u64> = 1..=100_000;
/// In milliseconds, up to a day.
const PERIOD: RangeInclusive<u64> = 1..=86_400_000;

/// What the program is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    /// URLs of servers; none means in-process nodes.
    pub(crate) nodes: Vec<String>,
    pub(crate) instances: usize,
    pub(crate) ticks: u64,
    pub(crate) schedule: Schedule,
    pub(crate) strategy: Strategy,
    pub(crate) role: Role,
}

/// What this process is.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// The one that a person started.
    Starter,
    /// An instance that the starter started.
    Instance { plan: Plan, me: Me },
}

/// Reads the command line; `None` asks for help.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Args>, BoxError> {
    let mut args = Args {
        nodes: Vec::new(),
        instances: 4,
        ticks: 10,
        schedule: Schedule::Every(Duration::from_secs(1)),
        strategy: Strategy::Tick,
        role: Role::Starter,
    };
    // Between the starter and its instances; of no use to people.
    let mut instance = None;
    let mut life = 0;
    let mut plan = None;
    let mut parser = lexopt::Parser::from_iter(words);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("nodes") => args.nodes = urls(&parser.value()?.string()?)?,
            Long("instances") => {
                args.instances = number(&mut parser, "--instances", INSTANCES)?.try_into()?;
            }
            Long("ticks") => args.ticks = number(&mut parser, "--ticks", TICKS)?,
            Long("period") => {
                let millis = number(&mut parser, "--period", PERIOD)?;
                args.schedule = Schedule::Every(Duration::from_millis(millis));
            }
            Long("schedule") => args.schedule = cron(&parser.value()?.string()?)?,
            Long("strategy") => args.strategy = parser.value()?.string()?.parse()?,
            Long("as-instance") => instance = Some(parser.value()?.parse::<usize>()?),
            Long("life") => life = parser.value()?.parse::<usize>()?,
            Long("plan") => plan = Some(parser.value()?.string()?),
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    if let Some(number) = instance {
        let me = Me {
            number,
            clock_offset: clock::offset(number, args.instances),
            life,
        };
        let plan = plan.ok_or("--as-instance needs --plan")?;
        let (first, job) = plan.split_once(':').ok_or("--plan is FIRST_TICK:JOB")?;
        let after = Tick::from_millis(first.parse::<u64>()?.saturating_sub(1));
        let plan = Plan::new(job, after, &args)?;
        args.role = Role::Instance { plan, me };
    }
    Ok(Some(args))
}

impl Args {
    /// Tells what is wrong with the arguments beyond their form.
    pub(crate) fn check(&self) -> Result<(), BoxError> {
        let is_cron = matches!(self.schedule, Schedule::Cron(_));
        if is_cron && self.strategy != Strategy::Tick {
            return Err(format!("--schedule: not with --strategy {}", self.strategy).into());
        }
        if !self.nodes.is_empty() {
            nodes::locks(nodes::connect(&self.nodes)?)?;
        }
        Ok(())
    }

    /// The arguments that make a process of this program one of the instances.
    pub(crate) fn for_instance(&self, number: usize, life: usize, plan: &Plan) -> Vec<String> {
        let schedule = match &self.schedule {
            Schedule::Every(period) => ("--period", period.as_millis().to_string()),
            Schedule::Cron(expression) => ("--schedule", expression.clone()),
        };
        let options = [
            ("--nodes", self.nodes.join(",")),
            ("--instances", self.instances.to_string()),
            ("--ticks", self.ticks.to_string()),
            schedule,
            ("--strategy", self.strategy.to_string()),
            ("--as-instance", number.to_string()),
            ("--life", life.to_string()),
            ("--plan", format!("{}:{}", plan.first(), plan.job)),
        ];
        let options = options.into_iter();
        options
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }
}

fn cron(expression: &str) -> Result<Schedule, BoxError> {
    let schedule = Schedule::Cron(expression.to_owned());
    match schedule.job("job").build() {
        Ok(_) => Ok(schedule),
        Err(error) => Err(format!("--schedule: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<Args>, BoxError> {
        let words = ["cron"].iter().chain(words);
        parse(words.map(OsString::from))
    }

    #[test]
    fn the_default_is_ten_one_second_ticks_on_four_instances() {
        let args = parsed(&[]).unwrap().unwrap();
        assert_eq!((args.ticks, args.instances), (10, 4));
        assert_eq!(args.schedule, Schedule::Every(Duration::from_secs(1)));
        assert!(args.nodes.is_empty());
        assert!(matches!(args.role, Role::Starter));
        assert!(args.check().is_ok());
    }

    #[test]
    fn wrong_options_say_what_is_wrong() {
        for (words, message) in [
            (
                &["--ticks", "0"][..],
                "--ticks 0: a number from 1 to 100000",
            ),
            (
                &["--instances", "x"],
                "--instances x: a number from 1 to 100",
            ),
            (
                &["--period", "0"],
                "--period 0: a number from 1 to 86400000",
            ),
            (&["--strategy", "luck"], "luck"),
            (
                &["--schedule", "at times"],
                "--schedule: cron expression \"at times\" cannot be read",
            ),
            (&["--nodes", "redis://a,,redis://b"], "--nodes needs URLs"),
            (&["--tick", "3"], "--tick"),
            (&["3"], "unexpected argument"),
            (&["--ticks"], "missing argument"),
        ] {
            let error = parsed(words).unwrap_err().to_string();
            assert!(error.contains(message), "{words:?}: {error}");
        }
        assert!(parsed(&["--help"]).unwrap().is_none());
    }

    #[test]
    fn a_cron_schedule_goes_with_claims_alone() {
        let words = ["--schedule", "* * * * * *", "--strategy", "hold"];
        let args = parsed(&words).unwrap().unwrap();
        let error = args.check().unwrap_err().to_string();
        assert_eq!(error, "--schedule: not with --strategy hold");
    }

    #[test]
    fn an_instance_is_told_the_whole_plan() {
        let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2";
        let common = ["--nodes", nodes, "--ticks", "3"];
        for (words, first) in [
            (["--period", "500", "--strategy", "hold"], 5_000),
            (["--schedule", "*/2 * * * * *", "--strategy", "tick"], 6_000),
        ] {
            let words = [common, words].concat();
            let args = parsed(&words).unwrap().unwrap();
            let plan = Plan::new("job:1", Tick::from_millis(4_999), &args).unwrap();
            assert_eq!(plan.first().as_millis(), first);
            let words = args.for_instance(4, 1, &plan);
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let child = parsed(&words).unwrap().unwrap();
            assert_eq!(child.nodes, args.nodes);
            let Role::Instance { plan: told, me } = child.role else {
                panic!("no instance");
            };
            assert_eq!(told, plan);
            let (clock_offset, life) = (150, 1);
            let number = 4;
            let expected = Me {
                number,
                clock_offset,
                life,
            };
            assert_eq!(me, expected);
        }
    }
}
