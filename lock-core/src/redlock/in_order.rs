//! Several resources on nodes that take no command for all of them, such as those of a cluster: one
//! lock after the other.

use std::sync::Arc;

use super::acquire;
use super::engine::Engine;
use crate::error::{AcquireError, TooSlow};
use crate::guard::LockGuard;
use crate::request::LockRequest;

/// Acquires all without waiting for a holder; `None` if somebody holds one of them.
pub(crate) async fn try_acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<Option<LockGuard>, AcquireError> {
    let mut guards = Vec::new();
    for request in request.one_by_one() {
        match acquire::try_one(engine, &request).await? {
            Some(guard) => guards.push(guard),
            // Those that were acquired are released as they are dropped.
            None => return Ok(None),
        }
    }
    Ok(Some(LockGuard::all(guards)))
}

/// Acquires one after the other, in the order of their names: whoever does so waits for nobody who
/// waits for him.
pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    request: &LockRequest,
) -> Result<LockGuard, AcquireError> {
    let runtime = engine.settings.runtime();
    let start = runtime.now();
    let max_wait = request.get_max_wait().unwrap_or(engine.settings.max_wait);
    let mut guards = Vec::new();
    for request in request.one_by_one() {
        let waited = runtime.now().saturating_sub(start);
        let left = max_wait.map(|max_wait| max_wait.saturating_sub(waited));
        guards.push(acquire::one(engine, &request.max_wait(left)).await?);
    }
    if guards.iter().all(LockGuard::is_valid) {
        return Ok(LockGuard::all(guards));
    }
    // The first ones ran out while the last one was waited for.
    Err(AcquireError::TooSlow(TooSlow {
        waited: runtime.now().saturating_sub(start),
        attempts: 1,
        took: runtime.now().saturating_sub(start),
        validity: request.get_ttl().unwrap_or(engine.settings.ttl),
    }))
}
