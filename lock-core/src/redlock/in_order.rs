//! Several resources on nodes that take no command for all of them, such as those of a cluster: one
//! lock after the other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join_all, select_all};

use super::acquire;
use super::engine::Engine;
use crate::error::{AcquireError, ExtendError, ReleaseError};
use crate::guard::{HeldLock, LockGuard, Loss, Votes};
use crate::lease::Lease;
use crate::request::LockRequest;
use crate::runtime::BoxFuture;

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
    Ok(Some(LockGuard::new(HeldAll::new(guards))))
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
        return Ok(LockGuard::new(HeldAll::new(guards)));
    }
    // The first ones ran out while the last one was waited for.
    Err(AcquireError::TooSlow(crate::error::TooSlow {
        waited: runtime.now().saturating_sub(start),
        attempts: 1,
        took: runtime.now().saturating_sub(start),
        validity: request.get_ttl().unwrap_or(engine.settings.ttl),
    }))
}

/// Locks that are held together. Each releases as it is dropped.
#[derive(Debug)]
struct HeldAll {
    guards: Vec<LockGuard>,
}

impl HeldAll {
    fn new(guards: Vec<LockGuard>) -> Self {
        Self { guards }
    }
}

#[async_trait]
impl HeldLock for HeldAll {
    fn resource(&self) -> &[u8] {
        self.guards.first().map_or(&[], LockGuard::resource)
    }

    fn token(&self) -> &str {
        self.guards.first().map_or("", LockGuard::token)
    }

    fn remaining(&self) -> Duration {
        let remaining = self.guards.iter().map(LockGuard::remaining);
        remaining.min().unwrap_or_default()
    }

    fn votes(&self) -> Votes {
        let votes = self.guards.iter().map(LockGuard::votes);
        votes
            .min_by_key(|votes| votes.granted)
            .unwrap_or(Votes::new(0, 0))
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        let lost = select_all(self.guards.iter().map(LockGuard::lost));
        Box::pin(async { lost.await.0 })
    }

    fn hand_over(&self) -> Option<Lease> {
        None
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let extended = join_all(self.guards.iter().map(|guard| guard.extend(ttl))).await;
        let is_lost = |result: &Result<(), _>| matches!(result, Err(ExtendError::Lost));
        if extended.iter().any(is_lost) {
            // Nothing stands of the others either, whatever came of them.
            return Err(ExtendError::Lost);
        }
        extended.into_iter().collect()
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        let released = join_all(self.guards.iter().map(LockGuard::release)).await;
        released.into_iter().collect()
    }

    fn release_in_background(&self) {
        // The guards are dropped right after this, and each does so.
    }
}
