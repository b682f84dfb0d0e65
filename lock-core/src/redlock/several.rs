//! Acquiring what a request asks for: all in one round or, on nodes that take no command for several
//! resources, such as those of a cluster, one lock after the other.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acquire;
use super::acquisition::Acquisition;
use super::engine::Engine;
use super::held::Held;
use super::release::release_in_background;
use crate::error::{AcquireError, TooSlow};
use crate::guard::{LockGuard, join};
use crate::node::NodeError;
use crate::request::{LockRequest, MaxWait};
use crate::runtime::Runtime;

/// If it `waits`, until the lock is free. Otherwise a holder is an error at once.
pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
    waits: bool,
) -> Result<LockGuard, AcquireError> {
    let is_one_by_one = || engine.is_one_by_one.load(Ordering::Relaxed);
    // A fencing token is for all of them together, so their keys go in one command or not at all.
    if request.several().is_none() || engine.settings().fences(request) || !is_one_by_one() {
        match acquire::one(engine, request, waits).await {
            Err(error) if goes_one_by_one(&error) => {
                engine.is_one_by_one.store(true, Ordering::Relaxed);
            }
            result => return result.map(LockGuard::new),
        }
    }
    // Boxed, so that the common future has no room for what is rare.
    Box::pin(one_by_one(engine, request, waits)).await
}

/// Returns whether a node of a cluster has refused to take several keys: the call does not end with this error.
pub(super) fn goes_one_by_one(error: &AcquireError) -> bool {
    let AcquireError::Unavailable(unavailable) = error else {
        return false;
    };
    unavailable.nodes.errors().any(NodeError::is_cross_slot)
}

/// Acquires one after the other, in the order of their names, which cannot deadlock. Those that were
/// acquired are released as they are dropped.
async fn one_by_one(
    engine: &Arc<Engine>,
    request: &LockRequest,
    waits: bool,
) -> Result<LockGuard, AcquireError> {
    let mut parts = Parts::new(engine, request)?;
    let max_wait = request.options().max_wait;
    let max_wait = max_wait.map_or(engine.settings().max_wait, MaxWait::limit);
    for request in request.one_by_one() {
        let left = max_wait.map(|max_wait| max_wait.saturating_sub(parts.waited()));
        // Whatever is to be held for long is only when all are there: else it is given back at once.
        let request = request.hold_at_least(Duration::ZERO).max_wait(left);
        parts.add(acquire::one(engine, &request, waits).await?);
    }
    parts.into_guard(engine, request)
}

/// The locks that are held so far. Dropped, they are released.
struct Parts {
    runtime: Arc<dyn Runtime>,
    start: Duration,
    guards: Vec<LockGuard>,
    locks: Vec<Arc<Acquisition>>,
}

impl Parts {
    /// Checks the whole request before any part of it is sent.
    fn new(engine: &Arc<Engine>, request: &LockRequest) -> Result<Self, AcquireError> {
        engine.settings().plan(request)?;
        let runtime = engine.settings().runtime();
        Ok(Self {
            start: runtime.now(),
            runtime,
            guards: Vec::new(),
            locks: Vec::new(),
        })
    }

    fn waited(&self) -> Duration {
        self.runtime.now().saturating_sub(self.start)
    }

    fn add(&mut self, held: Held) {
        self.locks.push(Arc::clone(held.lock()));
        self.guards.push(LockGuard::new(held));
    }

    fn into_guard(
        mut self,
        engine: &Engine,
        request: &LockRequest,
    ) -> Result<LockGuard, AcquireError> {
        if !self.guards.iter().all(LockGuard::is_valid) {
            // The first ones ran out while the last one was waited for.
            let waited = self.waited();
            return Err(AcquireError::TooSlow(TooSlow {
                waited,
                attempts: 1,
                took: waited,
                validity: request.options().ttl.unwrap_or(engine.settings().ttl),
            }));
        }
        let hold = request.options().hold_at_least;
        if !hold.is_zero() {
            let until = self.runtime.now().saturating_add(hold);
            for lock in &self.locks {
                lock.ledger().hold_until(until);
            }
        }
        self.locks.clear();
        Ok(join(mem::take(&mut self.guards)))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Before the guards are dropped, which would tell that of a mistake.
        for lock in &self.locks {
            release_in_background(lock);
        }
    }
}
