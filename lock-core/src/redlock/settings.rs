//! What a lock was built with, and what a request makes of it.

use std::sync::Arc;
use std::time::Duration;

use super::protocol::{Patience, Quorum, Timing};
use crate::error::InvalidInput;
use crate::request::{LockRequest, check_len};
use crate::retry::RetryPolicy;
use crate::runtime::{self, Runtime};

/// The settings of one lock, validated.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: Vec<u8>,
    pub(crate) quorum: Quorum,
    pub(crate) ttl: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
}

/// One request, checked and completed with the lock's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) resource: Arc<[u8]>,
    pub(crate) key: Arc<[u8]>,
    pub(crate) timing: Timing,
    pub(crate) hold_at_least: Duration,
}

impl Settings {
    pub(crate) fn timing(&self, ttl: Duration) -> Result<Timing, InvalidInput> {
        Timing::new(ttl, self.drift_factor, self.node_timeout)
    }

    /// How long a node may take for a release that belongs to no call any more.
    pub(crate) fn release_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or(Timing::MAX_NODE_TIMEOUT)
    }

    /// Checks all of a request, before any IO.
    pub(crate) fn plan(&self, request: &LockRequest) -> Result<Plan, InvalidInput> {
        let resource = request.shared_resource();
        let key = self.key(&resource)?;
        let ttl = request.validate(self.ttl)?;
        Ok(Plan {
            resource,
            key,
            timing: self.timing(ttl.as_duration())?,
            hold_at_least: request.get_hold_at_least(),
        })
    }

    /// How long a waiting acquire that starts at `now` is ready to wait.
    pub(crate) fn patience(&self, request: &LockRequest, now: Duration) -> Patience {
        let max_wait = request.get_max_wait().unwrap_or(self.max_wait);
        Patience::Wait {
            until: max_wait.map(|max_wait| now.saturating_add(max_wait)),
            retry: request.get_retry().unwrap_or(self.retry),
            give_up_when_held: request.gives_up_when_held(),
        }
    }

    /// The runtime that was set, or the one that the caller runs on.
    pub(crate) fn runtime(&self) -> Arc<dyn Runtime> {
        match &self.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => runtime::ambient(),
        }
    }

    /// The key of a resource: the prefix and then the resource, byte for byte.
    pub(crate) fn key(&self, resource: &Arc<[u8]>) -> Result<Arc<[u8]>, InvalidInput> {
        check_len(self.prefix.len(), resource)?;
        if self.prefix.is_empty() {
            return Ok(Arc::clone(resource));
        }
        Ok(Arc::from([&self.prefix[..], resource].concat()))
    }
}
