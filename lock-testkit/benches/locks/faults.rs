//! Our side before and after servers fail.

use std::time::Duration;

use lock_redis_rs::RedisRsNode;
use lock_testkit::{RedisServer, ServerError};

use crate::BenchResult;
use crate::args::Effort;
use crate::cpu::cpu_time;
use crate::healthy::warm_up;
use crate::ours::Ours;
use crate::report::{Cpu, Row, Unit};
use crate::side::one_by_one;
use crate::stats::{Latency, median};

const RESOURCE: &str = "bench";

/// How long each side is measured in one round.
const TURN: Duration = Duration::from_millis(600);

/// How long a healed server may take until it is connected and trusted again.
const SETTLE: Duration = Duration::from_millis(500);

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

/// Compares our latency from the first acquire after the fault on with that before it and after it
/// was healed: half of it each, so that a machine that grows faster or slower meanwhile does not
/// count.
pub(crate) async fn run(
    scenario: &'static str,
    servers: &[RedisServer],
    fault: Fault,
    effort: &Effort,
) -> BenchResult<Row> {
    let mut rounds = (Vec::new(), Vec::new());
    for _ in 0..effort.failures {
        // A new lock each time: it has to find out by itself.
        let ours = Ours::new(servers)?;
        warm_up(&ours).await?;
        let mut healthy = Measured::default();
        healthy.measure(&ours, TURN / 2).await?;
        fault.strike(servers)?;
        let mut failing = Measured::default();
        let measured = failing.measure(&ours, TURN).await;
        // The servers are needed again, whatever came of it.
        fault.heal(servers)?;
        measured?;
        tokio::time::sleep(SETTLE).await;
        warm_up(&ours).await?;
        healthy.measure(&ours, TURN / 2).await?;
        rounds.0.push(failing);
        rounds.1.push(healthy);
    }
    let [failing, healthy] = [rounds.0, rounds.1].map(Median::of);
    let cpu = Cpu {
        ours: failing.cpu,
        raw: healthy.cpu,
    };
    Ok(Row {
        scenario,
        nodes: servers.len(),
        ours: failing.latency.p50,
        raw: healthy.latency.p50,
        ratio: failing.latency.p50 / healthy.latency.p50,
        unit: Unit::Micros,
        cpu: Some(cpu),
        note: format!(
            "the first took {:.0} µs, p99 {:.0} / {:.0} µs, {cpu}",
            failing.latency.first, failing.latency.p99, healthy.latency.p99,
        ),
    })
}

/// What came of one round.
#[derive(Default)]
struct Measured {
    took: Vec<Duration>,
    cpu: Duration,
}

impl Measured {
    async fn measure(&mut self, ours: &Ours<RedisRsNode>, turn: Duration) -> BenchResult<()> {
        let before = cpu_time()?;
        self.took.extend(one_by_one(ours, RESOURCE, turn).await?);
        self.cpu += cpu_time()?.saturating_sub(before);
        Ok(())
    }
}

/// The medians of several rounds.
struct Median {
    latency: Latency,
    /// The client's time on a core for each pair, in microseconds.
    cpu: f64,
}

impl Median {
    fn of(rounds: Vec<Measured>) -> Self {
        let cpu = |round: &Measured| round.cpu.as_secs_f64() * 1e6 / round.took.len() as f64;
        let cpu = median(rounds.iter().map(cpu));
        let latencies = rounds.into_iter().map(|round| Latency::of(round.took));
        Self {
            latency: Latency::median(&latencies.collect::<Vec<_>>()),
            cpu,
        }
    }
}
