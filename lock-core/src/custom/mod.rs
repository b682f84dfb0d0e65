//! For authors of locks: the parts that a [`DistributedLock`](crate::DistributedLock) is made of.
//! Applications do not need them.
//!
//! - [`validate`], or [`validate_fenced`], checks a request, and [`LockRequest::options`] shows what it sets.
//! - [`guard`] makes a [`LockGuard`] of a held lock, which is any [`HeldLock`];
//!   [`guard_with_auto_extend`] also extends the lock in the background.
//! - [`one_by_one`] and [`join`] serve requests for several resources with a lock that takes one at a
//!   time.
//! - [`pause`] says how long to wait between two attempts.
//! - [`lease`] makes a [`Lease`] of a lock that can be handed over.
//!
//! The repository has such a lock, on files, in `examples/custom_lock`. The suite
//! `lock_testkit::lock_conformance!` checks a lock against the rules on
//! [`DistributedLock`](crate::DistributedLock#rules).

mod auto_extend;

use std::time::Duration;

pub use auto_extend::guard_with_auto_extend;

pub use crate::guard::join;
pub use crate::held::HeldLock;
pub use crate::request::{MaxWait, RequestOptions};

use crate::error::InvalidInput;
#[cfg(doc)]
use crate::fencing::FencingToken;
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::request::LockRequest;
use crate::retry::RetryPolicy;
use crate::ttl::Ttl;

/// Makes a guard of a lock that is held.
pub fn guard(held: impl HeldLock) -> LockGuard {
    LockGuard::new(held)
}

/// Checks a request for everything that no lock can serve, and returns its ttl, or `default_ttl` if it
/// sets none. Call it before anything is sent (rule L6).
///
/// # Errors
///
/// No resource or more than 100 of them, one of them twice, an empty one or one of more than 64
/// KiB, a ttl below 1 ms or above 365 days, `hold_at_least` above the ttl. And
/// [`InvalidInput::FencingUnsupported`] if it asks for a fencing token: a lock that has them calls
/// [`validate_fenced`] instead.
pub fn validate(request: &LockRequest, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
    match request.options().fencing {
        Some(true) => Err(InvalidInput::FencingUnsupported),
        _ => validate_fenced(request, default_ttl),
    }
}

/// The same for a lock that has fencing tokens: one whose [`HeldLock::fencing_token`] grows with every
/// acquisition of a resource, if the request asks for that.
///
/// # Errors
///
/// Those of [`validate`] but the last one; a floor above [`FencingToken::MAX_FLOOR`].
pub fn validate_fenced(request: &LockRequest, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
    request.validate(default_ttl)
}

/// Splits a request into one for each resource, in the order of their bytes. Locking in this order
/// cannot deadlock. [`join`] makes one guard of those that the lock returns.
pub fn one_by_one(request: &LockRequest) -> impl Iterator<Item = LockRequest> + use<> {
    request.one_by_one()
}

/// Returns how long to pause after attempt number `attempt`, where the first is 1. `chance` is a
/// random number in `0.0..1.0`.
#[must_use]
pub fn pause(policy: &RetryPolicy, attempt: u32, chance: f64) -> Duration {
    policy.pause(attempt, chance)
}

/// Makes a lease of a held lock, for [`HeldLock::hand_over`]. `token` names the owner, without a colon or a
/// comma, `ttl` is the lifetime that the lock was acquired with, and the lock can be relied on for
/// `remaining`.
pub fn lease(
    resource: impl Into<Vec<u8>>,
    token: impl Into<String>,
    ttl: Duration,
    remaining: Duration,
) -> Lease {
    Lease::new(vec![resource.into()], token, ttl, remaining)
}
