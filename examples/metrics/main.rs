//! Metrics of locks and their nodes, as Prometheus reads them.
//!
//! `cargo run --release --example metrics` lets locks be held, waited for and lost, and a node go away and
//! come back, and prints what a service would answer to `GET /metrics`. `observer.rs` is for you to copy; it
//! exports by the crate `metrics`, so another exporter will do too. What the names mean is in
//! `docs/metrics.md`.

mod observer;
mod scenes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use examples::BoxError;
use lock_core::Redlock;
use lock_testkit::MemoryNode;
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder};
use observer::MetricsObserver;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // Before the first metric. A service calls the handle's `run_upkeep` every few seconds, unless the
    // exporter's own listener is switched on, which does so.
    let handle = exporter()?.install_recorder()?;
    let nodes = MemoryNode::several(3);
    scenes::run(&locks(&nodes)?, &nodes).await?;
    print!("{}", handle.render());
    Ok(())
}

/// Locks take from parts of a millisecond up to the longest wait.
fn exporter() -> Result<PrometheusBuilder, BuildError> {
    const SECONDS: [f64; 9] = [0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];
    PrometheusBuilder::new().set_buckets(&SECONDS)
}

/// Locks that are observed.
fn locks(nodes: &[MemoryNode]) -> Result<Redlock, BoxError> {
    let locks = Redlock::builder()
        .nodes(nodes.iter().cloned())
        .observer(Arc::new(MetricsObserver::new(nodes)))
        .build()?;
    Ok(locks.into())
}
