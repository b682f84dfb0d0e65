//! Automatic extension for locks that have none of their own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::HeldLock;
use crate::error::ExtendError;
use crate::redlock::protocol::Renewal;
use crate::runtime::Runtime;

/// Extends a lock again and again, for as long as its guard lives.
pub(super) async fn extend(
    held: Weak<dyn HeldLock>,
    ttl: Duration,
    renewal: Renewal,
    runtime: Arc<dyn Runtime>,
) {
    let ends_at = runtime.now().saturating_add(renewal.max_hold);
    let mut due = runtime.now().saturating_add(renewal.interval);
    while due < ends_at {
        runtime.sleep(due.saturating_sub(runtime.now())).await;
        let Some(held) = held.upgrade() else {
            return;
        };
        let started = runtime.now();
        due = match held.extend(ttl).await {
            Ok(()) => started.saturating_add(renewal.interval),
            Err(ExtendError::Lost | ExtendError::Invalid(_)) => return,
            Err(ExtendError::Unavailable { .. }) => {
                let retry = renewal.retry_at(runtime.now(), held.remaining(), Duration::ZERO);
                let Some(at) = retry else { return };
                at
            }
        };
    }
}
