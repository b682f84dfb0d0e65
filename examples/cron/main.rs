//! A job that is scheduled every second runs on four instances, whose clocks are up to 300 ms
//! apart. Each tick shall be run by one of them.
//!
//! - `cargo run --release --example cron` needs nothing else: five in-process nodes, four tasks.
//! - `... --example cron -- --nodes redis://127.0.0.1:7001,redis://127.0.0.1:7002,...` uses real
//!   servers, and starts four processes. For the fred client in place of redis-rs, add
//!   `--no-default-features --features fred` before the `--`; for redis-rs on smol, without tokio,
//!   `-p examples --no-default-features --features redis-rs-smol`.
//! - `... --example cron -- --strategy release-after-run` (or `hold`) shows how a lock alone fails.
//!
//! - `... --example cron -- --schedule '*/2 * * * * *'` takes a cron expression, and restarts all instances
//!   across one of its instants: that one runs late, and once.
//!
//! What a service would do is in `instance.rs` and `strategy.rs`; the rest starts the instances and
//! judges what they did.

mod args;
mod clock;
mod instance;
mod plan;
mod processes;
mod report;
mod rt;
mod scoreboard;
mod screen;
mod strategy;
mod tasks;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use args::{Args, Role};
use examples::{BoxError, USAGE, fail, nodes};
use futures::StreamExt;
use plan::Plan;
use report::{Ending, Message, Messages};
use scoreboard::Scoreboard;
use screen::Screen;

/// How long after the last tick an instance may take to report. One that takes longer is hung.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let done = rt::block_on(run());
    done.unwrap_or_else(|error| fail("cron", &error, 1))
}

async fn run() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail("cron", &*error, USAGE),
    };
    // Whatever is wrong with the arguments shows here, once, and before anything is started.
    if let Err(error) = args.check() {
        return fail("cron", &*error, USAGE);
    }
    let done = match args.role.clone() {
        Role::Instance { plan, me } => processes::be_one(&args.nodes, &plan, me).await,
        Role::Starter => start(&args).await,
    };
    done.unwrap_or_else(|error| fail("cron", &*error, 1))
}

/// Starts all instances, and judges what they report.
async fn start(args: &Args) -> Result<ExitCode, BoxError> {
    let plan = Plan::starting_soon(args)?;
    let screen = Screen::new(&plan);
    screen.introduce(args, &plan);
    // What runs the instances is kept until the end: dropping it ends them.
    let (messages, _running) = if args.nodes.is_empty() {
        tasks::start(&plan, args.instances)?
    } else {
        processes::start(args, &plan)
    };
    let board = watch(messages, Scoreboard::new(&plan, args.instances), &screen).await;
    let summary = board.summary();
    screen.conclude(&summary);
    Ok(if summary.each_tick_ran_once() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Shows each tick as soon as every instance has dealt with it, until all instances have ended.
async fn watch(mut messages: Messages, mut board: Scoreboard, screen: &Screen) -> Scoreboard {
    let left = board.end().duration_since(SystemTime::now());
    let deadline = Instant::now() + left.unwrap_or_default() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let (instance, message) = match rt::timeout(left, messages.next()).await {
            Some(Some(message)) => message,
            Some(None) => break,
            None => {
                screen.note("some instances do not answer any more; they are stopped");
                break;
            }
        };
        match message {
            Message::Report(report) => board.record(instance, report),
            Message::Ended(ending) => {
                if let Ending::TooEarly(why) = &ending {
                    screen.note(&format!("instance {instance} ended too early: {why}"));
                }
                board.end_of(instance);
            }
        }
        for row in board.settled() {
            screen.show(row);
        }
        screen.progress(board.progress());
    }
    for row in board.all_the_rest() {
        screen.show(row);
    }
    board
}
