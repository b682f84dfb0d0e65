//! What a lock costs beyond its commands, and what it costs while servers fail.
//!
//! ```text
//! cargo bench --bench locks [-- [--json] [--quick] [SCENARIO...]]
//! ```
//!
//! Each scenario measures two sides in turn, on redis-servers of its own (see `stage`): in one
//! process, or each in its own where the scenario says current (see `process`). `ours` is a `Redlock` over `RedisRsNode`, or over `FredNode` where the scenario says
//! fred. `raw` is the limit: the two commands that a lock needs, sent by hand on the same client
//! (see `raw`). With fencing tokens, `raw` is our own lock without them; with failing servers, our own healthy
//! value.

mod args;
#[path = "../shared/cpu.rs"]
mod cpu;
mod faults;
mod healthy;
mod one_node;
mod ours;
mod process;
mod raw;
mod report;
mod side;
mod stage;
mod stats;

use std::error::Error;

use lock_redis_rs::RedisRsNode;
use lock_testkit::RedisServer;

use args::{Args, Effort};
use faults::Fault;
use ours::{Fenced, Ours};
use raw::{Fred, Raw, RedisRs};
use report::{Report, Row};
use side::Side;
use stage::Stage;

type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

enum Scenario {
    Sequential(Client),
    Parallel(Client),
    /// One task with fencing tokens, whose nodes are in step.
    Fenced(Client),
    OneNode,
    Failing(Fault),
}

#[derive(Clone, Copy)]
enum Client {
    RedisRs,
    Fred,
}

const SCENARIOS: [(&str, usize, Scenario); 14] = [
    ("seq/1", 1, Scenario::Sequential(Client::RedisRs)),
    ("seq/5", 5, Scenario::Sequential(Client::RedisRs)),
    ("par64/1", 1, Scenario::Parallel(Client::RedisRs)),
    ("par64/5", 5, Scenario::Parallel(Client::RedisRs)),
    ("current/par64/1", 1, Scenario::OneNode),
    ("fred/seq/1", 1, Scenario::Sequential(Client::Fred)),
    ("fred/seq/5", 5, Scenario::Sequential(Client::Fred)),
    ("fred/par64/1", 1, Scenario::Parallel(Client::Fred)),
    ("fred/par64/5", 5, Scenario::Parallel(Client::Fred)),
    ("fenced/seq/5", 5, Scenario::Fenced(Client::RedisRs)),
    ("fenced/fred/seq/5", 5, Scenario::Fenced(Client::Fred)),
    ("hung1/5", 5, Scenario::Failing(Fault::Hung(1))),
    ("hung2/5", 5, Scenario::Failing(Fault::Hung(2))),
    ("dead1/5", 5, Scenario::Failing(Fault::Dead)),
];

fn main() -> BenchResult<()> {
    if process::serve(std::env::args().skip(1))? {
        return Ok(());
    }
    let words = std::env::args().skip(1);
    let Some(args) = Args::parse(words, Effort::FULL, Effort::QUICK)? else {
        // `cargo test --all-targets` runs benches too, without the argument that cargo bench adds.
        return Ok(());
    };
    let (shared, apart) = (Stage::shared()?, Stage::apart()?);
    let one_core = Stage::one_core()?;
    let mut report = Report::new(args.json);
    report.start(&args.effort);
    for (name, nodes, scenario) in &SCENARIOS {
        if args.wants(name) {
            let stage = match scenario {
                Scenario::Parallel(_) | Scenario::OneNode => &shared,
                Scenario::Sequential(_) | Scenario::Fenced(_) => &apart,
                Scenario::Failing(_) => &one_core,
            };
            let row = stage.run(*nodes, async |servers| {
                run(servers, name, scenario, &args.effort).await
            });
            report.row(&row?);
        }
    }
    Ok(())
}

async fn run(
    servers: &[RedisServer],
    name: &'static str,
    scenario: &Scenario,
    effort: &Effort,
) -> BenchResult<Row> {
    let nodes = servers.len();
    match scenario {
        Scenario::Sequential(Client::RedisRs) => {
            healthy::sequential(name, nodes, redis_rs(servers).await?, effort).await
        }
        Scenario::Sequential(Client::Fred) => {
            healthy::sequential(name, nodes, fred(servers).await?, effort).await
        }
        Scenario::Parallel(Client::RedisRs) => {
            healthy::parallel(name, nodes, redis_rs(servers).await?, effort).await
        }
        Scenario::Parallel(Client::Fred) => {
            healthy::parallel(name, nodes, fred(servers).await?, effort).await
        }
        Scenario::Fenced(Client::RedisRs) => {
            let sides = (
                Fenced::<Ours<RedisRsNode>>::new(servers)?,
                Ours::new(servers)?,
            );
            healthy::sequential(name, nodes, sides, effort).await
        }
        Scenario::Fenced(Client::Fred) => {
            let sides = (Fenced::on_fred(servers)?, Ours::on_fred(servers)?);
            healthy::sequential(name, nodes, sides, effort).await
        }
        Scenario::OneNode => process::run(name, &servers[0].url(), effort),
        Scenario::Failing(fault) => faults::run(name, servers, *fault, effort).await,
    }
}

async fn redis_rs(servers: &[RedisServer]) -> BenchResult<(impl Side, impl Side)> {
    Ok((Ours::new(servers)?, Raw::<RedisRs>::new(servers).await?))
}

async fn fred(servers: &[RedisServer]) -> BenchResult<(impl Side, impl Side)> {
    Ok((Ours::on_fred(servers)?, Raw::<Fred>::new(servers).await?))
}
