//! A Redlock that is held: what stands behind its guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::attempt::{Attempt, nanos};
use super::{extend, release};
use crate::error::{ExtendError, ReleaseError};
use crate::guard::{HeldLock, Votes};

/// A lock that a quorum granted.
#[derive(Debug)]
pub(crate) struct Held {
    attempt: Arc<Attempt>,
    resource: Arc<[u8]>,
    /// Until when the lock can be relied on, in ns of the runtime's clock. It never goes back.
    valid_until: AtomicU64,
}

impl Held {
    pub(crate) fn new(attempt: Arc<Attempt>, resource: Arc<[u8]>, valid_until: Duration) -> Self {
        Self {
            attempt,
            resource,
            valid_until: AtomicU64::new(nanos(valid_until)),
        }
    }

    pub(crate) fn attempt(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    pub(crate) fn remaining_at(&self, now: Duration) -> Duration {
        if self.attempt.is_over() {
            return Duration::ZERO;
        }
        let valid_until = Duration::from_nanos(self.valid_until.load(Ordering::SeqCst));
        valid_until.saturating_sub(now)
    }

    pub(crate) fn extend_validity(&self, until: Duration) {
        self.valid_until.fetch_max(nanos(until), Ordering::SeqCst);
    }
}

#[async_trait]
impl HeldLock for Held {
    fn resource(&self) -> &[u8] {
        &self.resource
    }

    fn token(&self) -> &str {
        self.attempt.token.as_str()
    }

    fn remaining(&self) -> Duration {
        self.remaining_at(self.attempt.runtime.now())
    }

    fn votes(&self) -> Votes {
        Votes::new(self.attempt.granted().len(), self.attempt.quorum().nodes())
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        extend::extend(self, ttl).await
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        release::release(self).await
    }

    fn release_in_background(&self) {
        release::release_in_background(self);
    }
}
