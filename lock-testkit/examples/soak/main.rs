//! Locks in several processes, on five real servers that fail, and what came of it: an end-to-end test of
//! everything at once, for as long as one likes.
//!
//! ```sh
//! cargo run --release -p lock-testkit --example soak -- --minutes 10 --backend fred
//! ```

mod args;
mod child;
mod clock;
mod event;
mod fleet;
mod forgetting;
mod judge;
mod locks;
mod nemesis;
mod nodes;
mod report;
mod run;
mod ticks;
mod usage;
mod work;

use std::process::ExitCode;

use args::Args;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let ended = match args::parse(std::env::args().skip(1)) {
        Ok(Args::Soak(args)) => run::run(&args),
        Ok(Args::Child(args)) => child::run(&args),
        Err(error) => {
            eprintln!("{error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    ended.unwrap_or_else(|error| {
        eprintln!("soak: {error}");
        ExitCode::from(2)
    })
}
