//! Several resources on nodes that take no command for all of them, such as those of a cluster: one
//! lock after the other.

use std::sync::Arc;
use std::time::Duration;

use super::acquire;
use super::attempt::Attempt;
use super::engine::Engine;
use super::held::Held;
use crate::error::{AcquireError, TooSlow};
use crate::guard::{LockGuard, join};
use crate::request::{LockRequest, MaxWait};
use crate::runtime::Runtime;

/// Acquires all without waiting for a holder; `None` if somebody holds one of them.
pub(crate) async fn try_acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<LockGuard>, AcquireError> {
    let mut parts = Parts::new(engine, request)?;
    for request in request.one_by_one() {
        match acquire::try_one(engine, &part(request)).await? {
            Some(held) => parts.add(held),
            // Those that were acquired are released as they are dropped.
            None => return Ok(None),
        }
    }
    parts.into_guard(engine, request).map(Some)
}

/// Acquires one after the other, in the order of their names: whoever does so waits for nobody who
/// waits for him.
pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<LockGuard, AcquireError> {
    let mut parts = Parts::new(engine, request)?;
    let max_wait = request.options().max_wait;
    let max_wait = max_wait.map_or(engine.settings.max_wait, MaxWait::limit);
    for request in request.one_by_one() {
        let left = max_wait.map(|max_wait| max_wait.saturating_sub(parts.waited()));
        let request = part(request).max_wait(left);
        parts.add(acquire::one(engine, &request).await?);
    }
    parts.into_guard(engine, request)
}

/// A request for one of several. What is to be held for long is only when all are there: else it is
/// given back at once.
fn part(request: LockRequest) -> LockRequest {
    request.hold_at_least(Duration::ZERO)
}

/// The locks that are held so far. Dropped, they are released.
struct Parts {
    runtime: Arc<dyn Runtime>,
    start: Duration,
    guards: Vec<LockGuard>,
    attempts: Vec<Arc<Attempt>>,
}

impl Parts {
    /// Checks the whole request before any part of it is sent.
    fn new(engine: &Arc<Engine>, request: &LockRequest) -> Result<Self, AcquireError> {
        engine.settings.plan(request)?;
        let runtime = engine.settings.runtime();
        Ok(Self {
            start: runtime.now(),
            runtime,
            guards: Vec::new(),
            attempts: Vec::new(),
        })
    }

    fn waited(&self) -> Duration {
        self.runtime.now().saturating_sub(self.start)
    }

    fn add(&mut self, held: Held) {
        self.attempts.push(Arc::clone(held.attempt()));
        self.guards.push(LockGuard::new(held));
    }

    fn into_guard(self, engine: &Engine, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        if !self.guards.iter().all(LockGuard::is_valid) {
            // The first ones ran out while the last one was waited for.
            let waited = self.waited();
            return Err(AcquireError::TooSlow(TooSlow {
                waited,
                attempts: 1,
                took: waited,
                validity: request.options().ttl.unwrap_or(engine.settings.ttl),
            }));
        }
        let hold = request.options().hold_at_least;
        if !hold.is_zero() {
            let until = self.runtime.now().saturating_add(hold);
            self.attempts
                .iter()
                .for_each(|attempt| attempt.hold_until(until));
        }
        Ok(join(self.guards))
    }
}
