//! Several guards in one.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join_all, pending, select_all};

use super::LockGuard;
use crate::error::{ExtendError, Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::held::{HeldLock, Votes};
use crate::lease::Lease;
use crate::runtime::BoxFuture;

/// Joins several guards into one, for a lock that takes several resources one after the other.
///
/// The guard is valid while all of them are, and lost when one of them is. It shows the resource and
/// the token of the first, and has no fencing token.
pub fn join(guards: Vec<LockGuard>) -> LockGuard {
    LockGuard::new(Joined { guards })
}

/// Locks that are held together. Each is released as it is dropped.
#[derive(Debug)]
struct Joined {
    guards: Vec<LockGuard>,
}

#[async_trait]
impl HeldLock for Joined {
    fn resource(&self) -> &[u8] {
        self.guards.first().map_or(&[], LockGuard::resource)
    }

    fn token(&self) -> &str {
        self.guards.first().map_or("", LockGuard::token)
    }

    /// Each has one of its own, and no single number stands for all.
    fn fencing_token(&self) -> Option<FencingToken> {
        None
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
        let lost = self.guards.iter().map(LockGuard::lost);
        // A lock of no guards is never lost.
        let lost = select_all(lost.chain([Box::pin(pending()) as BoxFuture<'static, Loss>]));
        Box::pin(async { lost.await.0 })
    }

    fn hand_over(&self) -> Option<Lease> {
        None
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let extended = join_all(self.guards.iter().map(|guard| guard.extend(ttl))).await;
        let is_lost = |result: &Result<(), _>| matches!(result, Err(ExtendError::Lost));
        if extended.iter().any(is_lost) {
            // The whole is lost then, even if the others were extended.
            return Err(ExtendError::Lost);
        }
        extended.into_iter().collect()
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        let released = join_all(self.guards.iter().map(LockGuard::release)).await;
        released.into_iter().collect()
    }

    fn set_scoped(&self, is_scoped: bool) {
        for guard in &self.guards {
            guard.held.set_scoped(is_scoped);
        }
    }

    fn release_in_background(&self) {
        // The guards are dropped right after this, and each of them does so.
    }
}
