//! The checks, by subject.

pub(super) mod cancelling;
pub(super) mod dropping;
pub(super) mod exclusion;
pub(super) mod extending;
pub(super) mod holding;
pub(super) mod input;
pub(super) mod losing;
pub(super) mod majority;
pub(super) mod minority;
pub(super) mod names;
pub(super) mod outage;
pub(super) mod processes;
pub(super) mod releasing;
pub(super) mod renewing;
pub(super) mod several;
pub(super) mod stale;
pub(super) mod trying;
pub(super) mod validity;
pub(super) mod waiting;

use std::time::Duration;

use lock_core::LockRequest;

use super::cx::LONG;

const MS: Duration = Duration::from_millis(1);

/// Returns a request for a lock that does not end during a check.
fn long(name: impl AsRef<[u8]>) -> LockRequest {
    LockRequest::new(name).ttl(LONG)
}
