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
use crate::plan::{Me, Plan};
use crate::strategy::Strategy;

pub(crate) const HELP: &str = "\
A job that is scheduled every second, on several instances whose clocks are up to 300 ms apart.

Usage: cargo run --release --example cron -- [OPTIONS]

Options:
  --nodes URL,URL,...  Real Redis servers, and a process for each instance.
                       Default: 5 in-process nodes, and a task for each instance.
  --instances N        How many instances run the job (1 to 100, default 4).
  --ticks N            How many ticks to run (1 to 100000, default 10).
  --period MS          Milliseconds from tick to tick (1 to 86400000, default 1000).
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
    pub(crate) period: Duration,
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
        period: Duration::from_secs(1),
        strategy: Strategy::Tick,
        role: Role::Starter,
    };
    // Between the starter and its instances; of no use to people.
    let mut instance = None;
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
                args.period = Duration::from_millis(millis);
            }
            Long("strategy") => args.strategy = parser.value()?.string()?.parse()?,
            Long("as-instance") => instance = Some(parser.value()?.parse::<usize>()?),
            Long("plan") => plan = Some(parser.value()?.string()?),
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    if let Some(number) = instance {
        let me = Me::new(number, clock::offset(number, args.instances));
        let plan = plan.ok_or("--as-instance needs --plan")?;
        let (first, job) = plan.split_once(':').ok_or("--plan is FIRST_TICK:JOB")?;
        let plan = Plan::new(job, Tick::from_millis(first.parse()?), &args);
        args.role = Role::Instance { plan, me };
    }
    Ok(Some(args))
}

impl Args {
    /// Tells what is wrong with the arguments beyond their form.
    pub(crate) fn check(&self) -> Result<(), BoxError> {
        if !self.nodes.is_empty() {
            nodes::locks(nodes::connect(&self.nodes)?)?;
        }
        Ok(())
    }

    /// The arguments that make a process of this program one of the instances.
    pub(crate) fn for_instance(&self, number: usize, plan: &Plan) -> Vec<String> {
        let options = [
            ("--nodes", self.nodes.join(",")),
            ("--instances", self.instances.to_string()),
            ("--ticks", self.ticks.to_string()),
            ("--period", self.period.as_millis().to_string()),
            ("--strategy", self.strategy.to_string()),
            ("--as-instance", number.to_string()),
            ("--plan", format!("{}:{}", plan.first, plan.job)),
        ];
        let options = options.into_iter();
        options
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
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
        assert_eq!(args.period, Duration::from_secs(1));
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
    fn an_instance_is_told_the_whole_plan() {
        let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2";
        let words = [
            "--nodes",
            nodes,
            "--ticks",
            "3",
            "--period",
            "500",
            "--strategy",
            "hold",
        ];
        let args = parsed(&words).unwrap().unwrap();
        let plan = Plan::new("job:1", Tick::from_millis(5_000), &args);
        let words = args.for_instance(4, &plan);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let child = parsed(&words).unwrap().unwrap();
        assert_eq!(child.nodes, args.nodes);
        let Role::Instance { plan: told, me } = child.role else {
            panic!("no instance");
        };
        assert_eq!(told, plan);
        assert_eq!(me, Me::new(4, 150));
    }
}
