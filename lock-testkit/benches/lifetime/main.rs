//! What it costs to hold many locks that are extended automatically.
//!
//! ```text
//! cargo bench --bench lifetime [-- [--json] [--quick] [SCENARIO...]]
//! ```
//!
//! One `Redlock` over `RedisRsNode` holds 10,000 locks with a ttl of 10 s on five redis-servers of
//! its own, and does nothing else. `raw` is what it is measured against: the most that is allowed,
//! or for `requests` what one command for each lock and node would send.

#[path = "../shared/args.rs"]
mod args;
#[path = "../shared/cpu.rs"]
mod cpu;
mod hold;
mod report;
mod usage;

use std::error::Error;
use std::time::Duration;

use lock_testkit::RedisServer;
use tokio::runtime::Builder;

use args::Args;
use report::{Report, Row, Scenario};

type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

const NODES: usize = 5;
const LOCKS: usize = 10_000;
const TTL: Duration = Duration::from_secs(10);

/// Tokio's worker threads. What sends and what answers share the machine's cores.
const WORKERS: usize = 2;

/// How long the locks are held while it is measured: some rounds of extensions.
const FULL: Duration = Duration::from_secs(30);
const QUICK: Duration = Duration::from_secs(10);

fn main() -> BenchResult<()> {
    let words = std::env::args().skip(1);
    let Some(args) = Args::parse(words, FULL, QUICK)? else {
        // `cargo test --all-targets` runs benches too, without the argument that cargo bench adds.
        return Ok(());
    };
    let servers = RedisServer::start_many(NODES)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    let report = Report::new(args.json);
    report.start(args.effort);
    let costs = runtime.block_on(hold::run(&servers, args.effort))?;
    let rows = [
        Row {
            scenario: Scenario::Memory,
            ours: costs.bytes / LOCKS as f64,
            raw: 2048.0,
            note: format!("resident memory, {:.1} MB in all", costs.bytes / 1e6),
        },
        Row {
            scenario: Scenario::Cpu,
            ours: costs.cpu,
            raw: 0.2,
            note: "of one core, while all are held".to_owned(),
        },
        Row {
            scenario: Scenario::Requests,
            ours: costs.requests as f64,
            raw: costs.naive,
            note: format!("in {:.1} s", costs.held.as_secs_f64()),
        },
    ];
    for row in rows.iter().filter(|row| args.wants(row.scenario.name())) {
        report.row(row);
    }
    Ok(())
}
