//! The course of a soak.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use lock_testkit::sim::Chance;

use crate::BoxError;
use crate::args::SoakArgs;
use crate::clock;
use crate::fleet::Fleet;
use crate::forgetting::Forgetting;
use crate::locks;
use crate::nemesis::Nemesis;
use crate::nodes::{Nodes, RESTART_GUARD};
use crate::report::Report;
use crate::ticks::JOB;
use crate::work::LONGEST_TTL;

/// How long all is well in the beginning.
const WARM_UP: Duration = Duration::from_secs(5);

/// How long things go wrong before all rest.
const ROUND: Duration = Duration::from_secs(50);

/// What the keys of fencing counters end with: those stay for days.
const FENCING_COUNTER: &str = ":fencing-counter";

/// Runs a soak, and prints what came of it. The code is 1 if something is wrong.
pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode, BoxError> {
    let started = clock::now();
    let end = Instant::now() + args.length;
    let mut chance = Chance::new(args.seed);
    println!("seed {}", args.seed);
    let nodes = Nodes::start(args.rules.is_guarded)?;
    let words = nodes.as_words();
    if args.rules.is_guarded {
        locks::bootstrap(args.backends[0], args.rules, &words)?;
    }
    let forgetting = Forgetting::new(args.one_forgetful);
    let fleet = Fleet::start(args, &words)?;
    let mut report = Report::new(started, args.rules, &fleet);

    fleet.work()?;
    thread::sleep(WARM_UP);
    report.rested("after a warm-up", fleet.rest()?);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        fleet.work()?;
        let (faults, forgot) =
            Nemesis::rage(&nodes, &fleet, &forgetting, left.min(ROUND), &mut chance)?;
        report.raged(faults, forgot);
        report.rested("after faults", fleet.rest()?);
    }

    fleet.end()?;
    let is_beside = |key: &str| key == RESTART_GUARD || key.ends_with(FENCING_COUNTER);
    let is_lock = |(_, key): &(usize, String)| !key.starts_with(JOB) && !is_beside(key);
    let keys = nodes.keys()?;
    println!(
        "keys right after the shutdown of all: {} of locks, {} of ticks",
        keys.iter().filter(|key| is_lock(key)).count(),
        keys.iter().filter(|(_, key)| key.starts_with(JOB)).count(),
    );
    thread::sleep(LONGEST_TTL);
    let left = nodes.keys()?.into_iter().filter(is_lock).collect();
    Ok(ExitCode::from(u8::from(!report.print(left)?)))
}
