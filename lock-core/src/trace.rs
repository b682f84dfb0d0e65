//! What the engine tells `tracing`: see the [crate docs](crate#what-it-logs).

use std::fmt;
use std::time::Duration;

use crate::display::Line;
pub(crate) use crate::display::Name;
use crate::error::{AcquireError, Loss};
use crate::held::Votes;
use crate::node::NodeError;
use crate::tick::Tick;

/// Microseconds: a lock takes less than a millisecond.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn acquired(resource: &[u8], attempts: u32, waited: Duration, votes: Votes) {
    tracing::debug!(
        target: "lock_core",
        resource = %Name(resource),
        attempts,
        waited_us = micros(waited),
        granted = votes.granted,
        nodes = votes.nodes,
        "acquired"
    );
}

/// A contended lock is normal; every other failure matters to operators.
pub(crate) fn not_acquired(resource: &[u8], error: &AcquireError) {
    match error {
        AcquireError::Contended(contended) => tracing::debug!(
            target: "lock_core",
            resource = %Name(resource),
            attempts = contended.attempts,
            waited_us = micros(contended.waited),
            "contended"
        ),
        error => tracing::debug!(
            target: "lock_core",
            resource = %Name(resource),
            error = %error,
            "not acquired"
        ),
    }
}

pub(crate) fn lost(key: &[u8], loss: Loss, held: Duration) {
    tracing::warn!(
        target: "lock_core",
        key = %Name(key),
        held_us = micros(held),
        %loss,
        "lost"
    );
}

pub(crate) fn extended(key: &[u8], remaining: Duration) {
    tracing::debug!(
        target: "lock_core",
        key = %Name(key),
        remaining_us = micros(remaining),
        "extended"
    );
}

pub(crate) fn not_extended(key: &[u8], remaining: Duration, error: &dyn fmt::Display) {
    tracing::debug!(
        target: "lock_core",
        key = %Name(key),
        remaining_us = micros(remaining),
        error = %error,
        "not extended"
    );
}

/// `held` is called only if the event is enabled.
pub(crate) fn released(key: &[u8], held: impl Fn() -> Duration, outcome: &'static str) {
    tracing::debug!(
        target: "lock_core",
        key = %Name(key),
        held_us = micros(held()),
        outcome,
        "release"
    );
}

/// The end of one call to one node.
pub(crate) fn answer(node: &str, operation: &'static str, error: Option<&NodeError>) {
    match error {
        None => tracing::trace!(target: "lock_core", node, operation, "answered"),
        Some(error) => {
            tracing::trace!(target: "lock_core", node, operation, %error, "not answered");
        }
    }
}

/// A release that got no definite answer, and is sent again.
pub(crate) fn owed(node: &str, key: &[u8]) {
    tracing::debug!(target: "lock_core", node, key = %Name(key), "release owed");
}

/// A release that was owed, and is not sent any more since there are too many: the key lives until its
/// ttl ends.
pub(crate) fn given_up(node: &str, key: &[u8]) {
    tracing::warn!(target: "lock_core", node, key = %Name(key), "release given up");
}

pub(crate) fn suspect(node: &str, within: Duration) {
    tracing::debug!(target: "lock_core", node, within_us = micros(within), "node is suspect");
}

/// Two nodes that are one server.
pub(crate) fn twin(node: &str, other: &str) {
    tracing::warn!(target: "lock_core", node, other, "node is the same server as another");
}

pub(crate) fn answers_again(node: &str) {
    tracing::debug!(target: "lock_core", node, "node answers again");
}

/// Once for each node.
pub(crate) fn several_addresses(host: &str, addresses: usize) {
    tracing::warn!(
        target: "lock_core",
        host,
        addresses,
        "the name of a node has several addresses: they must lead to one server"
    );
}

/// One round of automatic extensions.
pub(crate) fn renewed(locks: usize, extended: usize, took: Duration) {
    tracing::debug!(
        target: "lock_core",
        locks,
        extended,
        took_us = micros(took),
        "extended together"
    );
}

/// Once for each step, for each job.
pub(crate) fn clock_set_back(job: &str, by: Duration) {
    tracing::warn!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        by_us = micros(by),
        "the wall clock was set back"
    );
}

/// Once for each job.
pub(crate) fn other_rules(job: &str, tick: Tick, retention: Duration, left: Duration) {
    tracing::warn!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        %tick,
        retention_us = micros(retention),
        left_us = micros(left),
        "another instance claims ticks by other rules"
    );
}

pub(crate) fn tick_ran(job: &str, tick: Tick, took: Duration) {
    tracing::debug!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        %tick,
        took_us = micros(took),
        "tick run"
    );
}

pub(crate) fn tick_claimed(job: &str, tick: Tick) {
    tracing::debug!(target: "lock_core", job = %Name(job.as_bytes()), %tick, "tick claimed elsewhere");
}

pub(crate) fn tick_not_run(job: &str, tick: Tick, reason: &dyn fmt::Display) {
    tracing::warn!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        %tick,
        reason = %Line(reason),
        "tick not run"
    );
}

pub(crate) fn job_failed(job: &str, tick: Tick, took: Duration, error: &str) {
    tracing::warn!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        %tick,
        took_us = micros(took),
        error = %Line(error),
        "job failed"
    );
}

pub(crate) fn job_panicked(job: &str, tick: Tick, took: Duration, panic: &str) {
    tracing::warn!(
        target: "lock_core",
        job = %Name(job.as_bytes()),
        %tick,
        took_us = micros(took),
        panic = %Line(panic),
        "job panicked"
    );
}
