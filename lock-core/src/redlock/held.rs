//! A Redlock that is held: what stands behind its guard.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::attempt::Attempt;
use super::{extend, handover, loss, release};
use crate::error::{ExtendError, Loss, ReleaseError};
use crate::held::{HeldLock, Votes};
use crate::lease::Lease;
use crate::runtime::BoxFuture;

/// A lock that a quorum granted.
#[derive(Debug)]
pub(crate) struct Held {
    attempt: Arc<Attempt>,
    resource: Arc<[u8]>,
}

impl Held {
    pub(crate) fn new(attempt: Arc<Attempt>, resource: Arc<[u8]>) -> Self {
        Self { attempt, resource }
    }

    pub(crate) fn attempt(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    /// When the attempt began that won it.
    pub(crate) fn started(&self) -> Duration {
        self.attempt.started
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
        self.attempt.remaining()
    }

    fn votes(&self) -> Votes {
        Votes::new(self.attempt.granted().len(), self.attempt.quorum().nodes())
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(loss::lost(Arc::clone(&self.attempt)))
    }

    fn hand_over(&self) -> Option<Lease> {
        handover::hand_over(&self.attempt)
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        extend::extend(&self.attempt, ttl).await
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        release::release(&self.attempt).await
    }

    fn release_in_background(&self) {
        release::release_in_background(&self.attempt);
    }
}
