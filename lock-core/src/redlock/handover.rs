//! Locks that go from one guard to another, as data.

use std::sync::Arc;

use super::attempt::Attempt;
use super::engine::Engine;
use super::held::Held;
use super::protocol::NodeSet;
use super::{extend, release, renewer};
use crate::error::{ExtendError, ResumeError};
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::node::Token;
use crate::request::LockRequest;

/// Makes data of a lock that is held, which its guard then neither extends nor releases any more.
pub(crate) fn hand_over(attempt: &Attempt) -> Option<Lease> {
    let remaining = attempt.remaining();
    if remaining.is_zero() || !(mutant!(LeaseReleasedOnDrop) || release::leave(attempt)) {
        return None;
    }
    let now = attempt.runtime.now();
    let token = attempt.token.as_str();
    let prefix = attempt.engine.settings.prefix.len();
    let keys = attempt.keys.as_slice().iter();
    let resources = keys.map(|key| key[prefix..].to_vec());
    let lease = Lease::new(
        resources.collect(),
        token,
        attempt.timing.ttl.as_duration(),
        remaining,
    )
    .with_hold_at_least(attempt.held_until().saturating_sub(now))
    .granted_by(attempt.granted().0);
    attempt.end();
    Some(lease)
}

/// Makes a guard of the data, if the lock is held by it still: it is extended for that.
pub(crate) async fn resume(engine: &Arc<Engine>, lease: &Lease) -> Result<LockGuard, ResumeError> {
    let token = Token::parse(lease.token()).ok_or(ResumeError::Token)?;
    let request = LockRequest::many(lease.resources()).ttl(lease.ttl());
    let plan = engine.settings.plan(&request)?;
    if engine.holders.is_shut() {
        return Err(ResumeError::ShutDown);
    }
    let runtime = engine.settings.runtime();
    let now = runtime.now();
    let attempt = Arc::new(Attempt::with_token(engine, &runtime, &plan, now, token));
    if !mutant!(ShutdownForgetsResumed) {
        engine.holders.add(&attempt);
    }
    // A shutdown may have come in between, and does not know of it then.
    if engine.holders.is_shut() {
        return Err(ResumeError::ShutDown);
    }
    // The key may be anywhere. Nodes that had not granted it may have had no answer yet, and do not
    // count before that is settled.
    let all = NodeSet::all(engine.members.len());
    for node in all.iter() {
        attempt.touch(node);
        let is_granted = NodeSet(lease.granted).contains(node);
        attempt.set_granted(node, is_granted || mutant!(LeaseDoubtfulKeysVote));
    }
    if attempt.granted() != all {
        attempt.doubt(now);
    }
    let hold = lease.hold_at_least();
    if !hold.is_zero() {
        attempt.hold_until(now.saturating_add(hold));
    }
    if mutant!(LeaseWithoutProof) {
        attempt.extend_validity(now.saturating_add(attempt.timing.validity));
    } else if let Err(error) = extend::resume(&attempt).await {
        // Nobody can resume it any more, so nobody else gives back what some nodes still have.
        if matches!(error, ExtendError::Lost) && !mutant!(LeaseLostLeavesKeys) {
            release::release_in_background(&attempt);
        }
        // A shutdown releases whatever it finds under way.
        return Err(match engine.holders.is_shut() {
            true => ResumeError::ShutDown,
            false => error.into(),
        });
    }
    if let Some(renewal) = plan.renewal {
        renewer::start(&attempt, renewal);
    }
    Ok(LockGuard::new(Held::new(attempt, plan.resource)))
}
