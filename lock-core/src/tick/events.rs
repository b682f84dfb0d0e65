//! What jobs tell `tracing`, one function for each event: see the [crate docs](crate#what-it-logs).

use std::fmt;
use std::time::Duration;

use super::Tick;
use crate::display::{Line, Name};
use crate::events::micros;

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
