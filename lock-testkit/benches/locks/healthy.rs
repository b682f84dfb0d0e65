//! Both sides while all servers are well.

use std::time::Duration;

use crate::BenchResult;
use crate::args::Effort;
use crate::report::{Row, Unit};
use crate::side::{Side, all_at_once, one_by_one};
use crate::stats::{Latency, median};

pub(crate) const TASKS: usize = 64;
const RESOURCE: &str = "bench";

/// One task that acquires and releases.
pub(crate) async fn sequential(
    scenario: &'static str,
    nodes: usize,
    (ours, raw): (impl Side, impl Side),
    effort: &Effort,
) -> BenchResult<Row> {
    warm_up(&ours).await?;
    warm_up(&raw).await?;
    let mut rounds = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mut took = (Vec::new(), Vec::new());
        for turn in 0..effort.turns {
            // Whoever goes second in one turn goes first in the next.
            if turn % 2 == 0 {
                took.0
                    .extend(one_by_one(&ours, RESOURCE, effort.turn).await?);
                took.1
                    .extend(one_by_one(&raw, RESOURCE, effort.turn).await?);
            } else {
                took.1
                    .extend(one_by_one(&raw, RESOURCE, effort.turn).await?);
                took.0
                    .extend(one_by_one(&ours, RESOURCE, effort.turn).await?);
            }
        }
        rounds.0.push(Latency::of(took.0));
        rounds.1.push(Latency::of(took.1));
    }
    let (ours, raw) = (Latency::median(&rounds.0), Latency::median(&rounds.1));
    Ok(Row {
        scenario,
        nodes,
        ours: ours.p50,
        raw: raw.p50,
        ratio: ours.p50 / raw.p50,
        unit: Unit::Micros,
        cpu: None,
        note: format!("p99 {:.0} / {:.0} µs", ours.p99, raw.p99),
    })
}

/// Many tasks, each with a lock of its own.
///
/// A machine with all cores in use is faster in one second than in the next, so turns that follow
/// each other are compared: the ratio is the median of theirs.
pub(crate) async fn parallel(
    scenario: &'static str,
    nodes: usize,
    (ours, raw): (impl Side, impl Side),
    effort: &Effort,
) -> BenchResult<Row> {
    warm_up(&ours).await?;
    warm_up(&raw).await?;
    let mut rates = Vec::new();
    for turn in 0..effort.rounds * effort.turns {
        // The side that goes second in one turn goes first in the next.
        rates.push(if turn % 2 == 0 {
            let ours = rate(&ours, effort.turn).await?;
            (ours, rate(&raw, effort.turn).await?)
        } else {
            let raw = rate(&raw, effort.turn).await?;
            (rate(&ours, effort.turn).await?, raw)
        });
    }
    Ok(Row {
        scenario,
        nodes,
        ours: median(rates.iter().map(|(ours, _)| *ours)),
        raw: median(rates.iter().map(|(_, raw)| *raw)),
        ratio: median(rates.chunks(2).map(ratio)),
        unit: Unit::PairsPerSecond,
        cpu: None,
        note: format!("{TASKS} tasks"),
    })
}

async fn rate(side: &impl Side, turn: Duration) -> BenchResult<f64> {
    Ok(all_at_once(side, TASKS, turn).await?.per_second())
}

/// Of two turns, of which each side was the first in one.
pub(crate) fn ratio(turns: &[(f64, f64)]) -> f64 {
    let ours: f64 = turns.iter().map(|(ours, _)| ours).sum();
    let raw: f64 = turns.iter().map(|(_, raw)| raw).sum();
    ours / raw
}

/// Opens connections, loads scripts, fills caches.
pub(crate) async fn warm_up<S: Side>(side: &S) -> BenchResult<()> {
    let turn = Duration::from_millis(100);
    one_by_one(side, RESOURCE, turn).await?;
    all_at_once(side, TASKS, turn).await?;
    Ok(())
}
