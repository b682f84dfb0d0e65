//! Medians and percentiles.

use std::time::Duration;

/// The median; the upper one of an even number of values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values = values.into_iter().collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How long things took, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) first: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latency {
    pub(crate) fn of(mut took: Vec<Duration>) -> Self {
        let micros = |took: Option<&Duration>| took.map_or(f64::NAN, |d| d.as_secs_f64() * 1e6);
        let first = micros(took.first());
        took.sort_unstable();
        Self {
            first,
            p50: micros(took.get(took.len() / 2)),
            p99: micros(took.get(took.len() * 99 / 100)),
        }
    }

    /// The medians of several rounds.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        Self {
            first: median(rounds.iter().map(|round| round.first)),
            p50: median(rounds.iter().map(|round| round.p50)),
            p99: median(rounds.iter().map(|round| round.p99)),
        }
    }
}
