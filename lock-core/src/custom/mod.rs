//! For authors of locks: what a [`DistributedLock`](crate::DistributedLock) of your own is made of.
//!
//! A lock checks each request with [`validate`], reads the rest of it from
//! [`LockRequest::options`], and makes a [`LockGuard`] of what it holds with [`guard`]: any
//! [`HeldLock`]. With [`guard_with_auto_extend`] the guard extends the lock in the background, and a
//! lock that takes one resource at a time serves requests for several with [`one_by_one`] and
//! [`join`]. Requests that wait pause for as long as [`pause`] says.
//!
//! `examples/custom_lock` of the repository is a lock made so, and the suite
//! `lock_testkit::lock_conformance!` checks the rules on
//! [`DistributedLock`](crate::DistributedLock#rules).

mod auto_extend;

use std::time::Duration;

pub use auto_extend::guard_with_auto_extend;

pub use crate::guard::join;
pub use crate::held::HeldLock;
pub use crate::request::{MaxWait, RequestOptions};

use crate::error::InvalidInput;
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::request::LockRequest;
use crate::retry::RetryPolicy;
use crate::ttl::Ttl;

/// Makes a guard of a lock that is held.
pub fn guard(held: impl HeldLock) -> LockGuard {
    LockGuard::new(held)
}

/// Checks what every lock has to refuse before it sends anything. Returns the ttl: that of the
/// request, or `default_ttl`.
///
/// # Errors
///
/// No resource or more than 100 of them, one of them twice, an empty one or one of more than 64
/// KiB, a ttl below 1 ms or above 365 days, `hold_at_least` above the ttl.
pub fn validate(request: &LockRequest, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
    request.validate(default_ttl)
}

/// Splits a request into one for each resource, in the order of their bytes. Locking in this order
/// cannot deadlock. For locks that take one resource at a time; [`join`] makes one guard of theirs.
pub fn one_by_one(request: &LockRequest) -> impl Iterator<Item = LockRequest> + use<> {
    request.one_by_one()
}

/// Returns how long to wait after attempt number `attempt` (the first is 1). `chance` is a random
/// number in `0.0..1.0`.
#[must_use]
pub fn pause(policy: &RetryPolicy, attempt: u32, chance: f64) -> Duration {
    policy.pause(attempt, chance)
}

/// Makes a lease of a lock that is held, for [`HeldLock::hand_over`]: who holds `resource` is known
/// by `token`, the lock was acquired for `ttl`, and can be relied on for `remaining`.
pub fn lease(
    resource: impl Into<Vec<u8>>,
    token: impl Into<String>,
    ttl: Duration,
    remaining: Duration,
) -> Lease {
    Lease::new(vec![resource.into()], token, ttl, remaining)
}
