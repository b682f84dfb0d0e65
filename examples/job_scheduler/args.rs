//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;

use cron::Schedule;
use examples::args::{number, urls};
use examples::{BoxError, nodes};
use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
A job that a cron scheduler runs on several instances, each instant by one of them.

Usage: cargo run --release --example job_scheduler --features apalis -- [OPTIONS]

Options:
  --nodes URL,URL,...  Real Redis servers. Default: 5 in-process nodes.
  --instances N        How many instances run in this process (1 to 100, default 4).
  --ticks N            How many instants to run (1 to 100000, default 5).
  --schedule CRON      The schedule, in UTC, seconds first (default \"* * * * * *\"). Write days of
                       the week as names: their numbers differ from scheduler to scheduler.
  --scheduler NAME     apalis (default): it says for when it planned a run.
                       tokio-cron-scheduler: that is found out by the time at which it starts one.
                       none: the locks have a schedule of their own.
  --help               Prints this.

The exit code is 0 if each instant ran exactly once, 1 if not, 2 if the options are wrong.";

const INSTANCES: RangeInclusive<u64> = 1..=100;
const TICKS: RangeInclusive<u64> = 1..=100_000;

/// What the program is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    /// URLs of servers; none means in-process nodes.
    pub(crate) nodes: Vec<String>,
    pub(crate) instances: usize,
    pub(crate) ticks: usize,
    pub(crate) schedule: Schedule,
    pub(crate) scheduler: Scheduler,
}

/// Where the instants come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    Apalis,
    TokioCron,
    None,
}

/// Reads the command line; `None` asks for help.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Args>, BoxError> {
    let mut args = Args {
        nodes: Vec::new(),
        instances: 4,
        ticks: 5,
        schedule: Schedule::from_str("* * * * * *")?,
        scheduler: Scheduler::Apalis,
    };
    let mut parser = lexopt::Parser::from_iter(words);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("nodes") => args.nodes = urls(&parser.value()?.string()?)?,
            Long("instances") => {
                args.instances = number(&mut parser, "--instances", INSTANCES)?.try_into()?;
            }
            Long("ticks") => args.ticks = number(&mut parser, "--ticks", TICKS)?.try_into()?,
            Long("schedule") => args.schedule = schedule(&parser.value()?.string()?)?,
            Long("scheduler") => args.scheduler = parser.value()?.string()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    // Nothing connects before it is used, so whatever is wrong with the URLs shows here.
    nodes::redlock(nodes::choose(&args.nodes)?)?;
    Ok(Some(args))
}

fn schedule(expression: &str) -> Result<Schedule, BoxError> {
    let parsed = Schedule::from_str(expression);
    parsed.map_err(|error| format!("--schedule {expression}: {error}").into())
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "apalis" => Ok(Self::Apalis),
            "tokio-cron-scheduler" => Ok(Self::TokioCron),
            "none" => Ok(Self::None),
            _ => Err(format!(
                "--scheduler {word}: apalis, tokio-cron-scheduler or none is needed"
            )),
        }
    }
}
