//! A scheduler runs a job on several instances of a service, and each instant of its schedule is run
//! by one of them.
//!
//! ```sh
//! cargo run --release --example job_scheduler --features apalis
//! cargo run --release --example job_scheduler --features apalis -- --schedule "*/2 * * * * *"
//! ```
//!
//! It needs no server: five in-process nodes, and four instances in this process, each with a
//! scheduler and a lock of its own. With `--nodes redis://127.0.0.1:7001,...` it uses real servers;
//! then start it in several terminals at once, too.
//!
//! The point is what the job claims: the instant for which the scheduler has *planned* the run.
//! Every instance arrives at the same one, however late its timer fires, and whatever the others do
//! by then. `TickJob::at_instants` is for that.
//!
//! # Which scheduler
//!
//! Of the two usual ones, apalis (`apalis-cron` 1.0, October 2026) hands the planned instant to the
//! job, as its argument. `tokio-cron-scheduler` (0.15) looks at its schedule every half second and
//! starts a job up to that much late, without saying for when it was planned; what its
//! `next_tick_for_job` says inside of a job is that instant or the next, as chance will have it. For it, and
//! for any other that keeps the instant to itself, `planned.rs` finds it again: `--scheduler
//! tokio-cron-scheduler`.
//!
//! Neither has a memory of the instant that came due while all instances were down. Where a scheduler is not
//! needed for something else, `--scheduler none` does without: `TickJob::cron` waits by itself, and catches
//! that instant up.
//!
//! - `instance.rs`: what an instance of a service does. This is the part to copy.
//! - `planned.rs`: the planned instant, for schedulers that do not hand it over.
//! - `ledger.rs`: who ran what, and whether each instant was run once.

mod args;
mod instance;
mod ledger;
mod planned;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use args::Args;
use chrono::Utc;
use examples::{BoxError, USAGE, fail, nodes};
use instance::Instance;
use ledger::{Ledger, Reports};
use lock_core::tick::Tick;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The first instant is at least so far away: everybody shall be there in time.
const LEAD: Duration = Duration::from_secs(1);

/// How long after the last instant the reports may take. A claim waits for nodes for ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail("job_scheduler", &*error, USAGE),
    };
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail("job_scheduler", &*error, 1),
    }
}

/// Runs the instances until the last instant is dealt with; whether each was run once.
async fn run(args: &Args) -> Result<bool, BoxError> {
    let ticks = upcoming(args)?;
    let (reporter, reports) = mpsc::unbounded_channel();
    // Dropping the sender stops the instances.
    let (running, stopped) = watch::channel(());
    let nodes = nodes::choose(&args.nodes)?;
    let mut instances = JoinSet::new();
    for number in 1..=args.instances {
        // Each has a lock object of its own, as in a process of its own.
        let locks = nodes::locks(nodes.clone())?;
        let instance = Instance::new(number, locks, args, reporter.clone())?;
        instances.spawn(instance::run(instance, args.scheduler, stopped.clone()));
    }
    drop(reporter);
    println!(
        "{} instants of \"{}\", {} instances.\n",
        ticks.len(),
        args.schedule,
        args.instances,
    );
    let ledger = Ledger::new(&ticks, args.instances);
    let ledger = watch_all(reports, ledger).await;
    drop(running);
    while let Some(ended) = instances.join_next().await {
        ended??;
    }
    println!("\n{ledger}");
    Ok(ledger.each_ran_once())
}

/// The instants that are to be run, by the schedule alone.
fn upcoming(args: &Args) -> Result<Vec<Tick>, BoxError> {
    let ticks = args.schedule.after(&(Utc::now() + LEAD)).take(args.ticks);
    let ticks = ticks.map(|instant| Ok(Tick::at(SystemTime::from(instant))?));
    let ticks = ticks.collect::<Result<Vec<_>, BoxError>>()?;
    if ticks.is_empty() {
        return Err(format!("--schedule {}: no instant is left", args.schedule).into());
    }
    Ok(ticks)
}

/// Takes reports until every instance has dealt with every instant, or takes too long for it.
async fn watch_all(mut reports: Reports, mut ledger: Ledger) -> Ledger {
    let end = ledger.last().system_time();
    let left = end.and_then(|end| end.duration_since(SystemTime::now()).ok());
    let deadline = tokio::time::Instant::now() + left.unwrap_or_default() + PATIENCE;
    while !ledger.is_complete() {
        match tokio::time::timeout_at(deadline, reports.recv()).await {
            Ok(Some(report)) => ledger.record(report),
            Ok(None) | Err(_) => break,
        }
        ledger.settled().iter().for_each(|line| println!("{line}"));
    }
    ledger.the_rest().iter().for_each(|line| println!("{line}"));
    ledger
}
