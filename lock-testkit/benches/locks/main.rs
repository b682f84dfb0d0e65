//! What a lock costs beyond its commands, and what it costs while servers fail.
//!
//! ```text
//! cargo bench --bench locks [-- [--json] [--quick] [SCENARIO...]]
//! ```
//!
//! Each scenario measures two sides in turn, in one process, on redis-servers of its own. `ours`
//! is a `Redlock` over `RedisRsNode`. `raw` is the limit: the two commands that a lock needs, sent
//! by hand on the same client (see `raw.rs`). With failing servers, `raw` is our own healthy value
//! instead.

mod args;
mod faults;
mod healthy;
mod ours;
mod raw;
mod report;
mod side;
mod stats;

use std::error::Error;

use lock_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};

use args::{Args, Effort};
use faults::Fault;
use report::{Report, Row};

type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Tokio's worker threads. What sends and what answers share the machine's cores.
const WORKERS: usize = 2;

enum Scenario {
    Sequential,
    Parallel,
    Failing(Fault),
}

const SCENARIOS: [(&str, usize, Scenario); 7] = [
    ("seq/1", 1, Scenario::Sequential),
    ("seq/5", 5, Scenario::Sequential),
    ("par64/1", 1, Scenario::Parallel),
    ("par64/5", 5, Scenario::Parallel),
    ("hung1/5", 5, Scenario::Failing(Fault::Hung(1))),
    ("hung2/5", 5, Scenario::Failing(Fault::Hung(2))),
    ("dead1/5", 5, Scenario::Failing(Fault::Dead)),
];

fn main() -> BenchResult<()> {
    let words = std::env::args().skip(1);
    let Some(args) = Args::parse(words, Effort::FULL, Effort::QUICK)? else {
        // `cargo test --all-targets` runs benches too, without the argument that cargo bench adds.
        return Ok(());
    };
    let servers = RedisServer::start_many(5)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    let mut report = Report::new(args.json);
    report.start(WORKERS, args.effort.rounds);
    for (name, nodes, scenario) in &SCENARIOS {
        if args.wants(name) {
            report.row(&run(&runtime, &servers[..*nodes], name, scenario, &args)?);
        }
    }
    Ok(())
}

fn run(
    runtime: &Runtime,
    servers: &[RedisServer],
    name: &'static str,
    scenario: &Scenario,
    args: &Args,
) -> BenchResult<Row> {
    runtime.block_on(async {
        match scenario {
            Scenario::Sequential => healthy::sequential(name, servers, &args.effort).await,
            Scenario::Parallel => healthy::parallel(name, servers, &args.effort).await,
            Scenario::Failing(fault) => faults::run(name, servers, *fault, &args.effort).await,
        }
    })
}
