//! Our side before and after servers fail.

use std::time::Duration;

use lock_testkit::{RedisServer, ServerError};

use crate::BenchResult;
use crate::args::Effort;
use crate::healthy::warm_up;
use crate::ours::Ours;
use crate::report::{Row, Unit};
use crate::side::one_by_one;
use crate::stats::Latency;

const RESOURCE: &str = "bench";

/// How long what a round has left behind may take to end.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// So many servers are stopped: they take connections and commands, and answer none.
    Hung(usize),
    /// One server is killed: connections to it are refused.
    Dead,
}

impl Fault {
    fn strike(self, servers: &[RedisServer]) -> Result<(), ServerError> {
        match self {
            Self::Hung(count) => servers.iter().take(count).try_for_each(RedisServer::pause),
            Self::Dead => servers.iter().take(1).try_for_each(RedisServer::kill),
        }
    }

    fn heal(self, servers: &[RedisServer]) -> Result<(), ServerError> {
        match self {
            Self::Hung(count) => servers.iter().take(count).try_for_each(RedisServer::resume),
            Self::Dead => servers.iter().take(1).try_for_each(RedisServer::restart),
        }
    }
}

/// Compares our latency from the first acquire after the fault on with that before.
pub(crate) async fn run(
    scenario: &'static str,
    servers: &[RedisServer],
    fault: Fault,
    effort: &Effort,
) -> BenchResult<Row> {
    let mut rounds = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        // A new lock each time: it has to find out by itself.
        let ours = Ours::new(servers)?;
        warm_up(&ours).await?;
        let healthy = one_by_one(&ours, RESOURCE, effort.round()).await?;
        fault.strike(servers)?;
        let failing = one_by_one(&ours, RESOURCE, effort.round()).await;
        // The servers are needed again, whatever came of it.
        fault.heal(servers)?;
        rounds.0.push(Latency::of(failing?));
        rounds.1.push(Latency::of(healthy));
        tokio::time::sleep(SETTLE).await;
    }
    let (failing, healthy) = (Latency::median(&rounds.0), Latency::median(&rounds.1));
    Ok(Row {
        scenario,
        nodes: servers.len(),
        ours: failing.p50,
        raw: healthy.p50,
        unit: Unit::Micros,
        note: format!(
            "the first took {:.0} µs, p99 {:.0} / {:.0} µs",
            failing.first, failing.p99, healthy.p99
        ),
    })
}
