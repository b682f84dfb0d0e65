//! What happens to locks and nodes, as metrics.

use lock_core::observer::{
    Acquired, Extended, Lost, NodeDown, NotAcquired, NotExtended, Observer, QuorumOutOfReach,
    ReleaseOutcome, Released,
};
use lock_core::{AcquireError, Loss, RedisNode};
use metrics::{counter, gauge, histogram};

/// Counts, times and gauges, without the names of resources: there is no end of those.
#[derive(Debug)]
pub(crate) struct MetricsObserver;

impl MetricsObserver {
    /// Of locks over these nodes, which are up as far as is known.
    pub(crate) fn new<N: RedisNode>(nodes: &[N]) -> Self {
        for node in nodes {
            gauge!("lock_node_up", "node" => node.label().to_owned()).set(1);
        }
        gauge!("lock_quorum_up").set(1);
        Self
    }
}

impl Observer for MetricsObserver {
    fn acquired(&self, event: &Acquired<'_>) {
        histogram!("lock_wait_seconds", "outcome" => "acquired").record(event.waited);
    }

    fn not_acquired(&self, event: &NotAcquired<'_>) {
        let (outcome, waited) = match event.error {
            AcquireError::Contended(error) => ("contended", error.waited),
            AcquireError::Unavailable(error) => ("unavailable", error.waited),
            AcquireError::TooSlow(error) => ("too_slow", error.waited),
            // A shutdown.
            _ => return,
        };
        histogram!("lock_wait_seconds", "outcome" => outcome).record(waited);
    }

    fn extended(&self, _event: &Extended<'_>) {
        counter!("lock_extensions_total", "outcome" => "extended").increment(1);
    }

    fn not_extended(&self, _event: &NotExtended<'_>) {
        counter!("lock_extensions_total", "outcome" => "failed").increment(1);
    }

    fn lost(&self, event: &Lost<'_>) {
        let loss = match event.loss {
            Loss::Expired => "expired",
            _ => "revoked",
        };
        counter!("lock_losses_total", "loss" => loss).increment(1);
    }

    fn released(&self, event: &Released<'_>) {
        let outcome = match event.outcome {
            ReleaseOutcome::Released => "released",
            ReleaseOutcome::NotHeld => "not_held",
            _ => "unavailable",
        };
        histogram!("lock_held_seconds", "outcome" => outcome).record(event.held);
    }

    fn node_down(&self, event: &NodeDown<'_>) {
        gauge!("lock_node_up", "node" => event.node.to_owned()).set(0);
    }

    fn node_up(&self, node: &str) {
        gauge!("lock_node_up", "node" => node.to_owned()).set(1);
    }

    fn quorum_out_of_reach(&self, _event: &QuorumOutOfReach) {
        gauge!("lock_quorum_up").set(0);
    }

    fn quorum_back(&self) {
        gauge!("lock_quorum_up").set(1);
    }
}
