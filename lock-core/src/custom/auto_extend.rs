//! Automatic extension for locks that have none of their own: [`guard_with_auto_extend`].

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::error::{ExtendError, InvalidInput};
use crate::guard::LockGuard;
use crate::held::HeldLock;
use crate::redlock::protocol::Renewal;
use crate::request::{LockRequest, MAX_HOLD};
use crate::runtime::Runtime;
use crate::ttl::Ttl;

/// Makes a guard of a lock that is held, and extends the lock in the background if the request asks
/// for that.
///
/// A task on the runtime then extends the lock to `ttl` again and again, until the guard is dropped,
/// the lock is released or lost, or `max_hold` (one hour by default) is over.
///
/// # Errors
///
/// [`InvalidInput::ExtendInterval`]: the request's `extend_interval` leaves no time for another try.
/// The lock is released then.
pub fn guard_with_auto_extend(
    held: impl HeldLock,
    request: &LockRequest,
    ttl: Ttl,
    runtime: &Arc<dyn Runtime>,
) -> Result<LockGuard, InvalidInput> {
    let guard = LockGuard::new(held);
    let options = request.options();
    if options.auto_extend == Some(true) {
        let ttl = ttl.as_duration();
        let max_hold = options.max_hold.unwrap_or(MAX_HOLD);
        let renewal = Renewal::new(ttl, options.extend_interval, max_hold)?;
        let task = extend(guard.downgrade(), ttl, renewal, Arc::clone(runtime));
        runtime.spawn(Box::pin(task));
    }
    Ok(guard)
}

/// Extends a lock again and again, for as long as its guard lives.
async fn extend(
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
