//! Locks that go from one guard to another, as data.

use std::sync::Arc;

use super::attempt::Attempt;
use super::engine::Engine;
use super::held::Held;
use super::protocol::NodeSet;
use super::{extend, release, renewer};
use crate::error::ResumeError;
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::node::Token;
use crate::request::LockRequest;

/// Makes data of a lock that is held, which its guard then neither extends nor releases any more.
pub(crate) fn hand_over(attempt: &Attempt) -> Option<Lease> {
    let remaining = attempt.remaining();
    if remaining.is_zero() || !release::leave(attempt) {
        return None;
    }
    let now = attempt.runtime.now();
    let token = attempt.token.as_str();
    let prefix = attempt.engine.settings.prefix.len();
    let keys = attempt.keys.as_slice().iter();
    let lease = Lease::new([], token, attempt.timing.ttl.as_duration(), remaining)
        .of(keys.map(|key| key[prefix..].to_vec()).collect())
        .hold_at_least(attempt.held_until().saturating_sub(now))
        .granted_by(attempt.granted().0);
    attempt.end();
    Some(lease)
}

/// Makes a guard of the data, if the lock is held by it still: it is extended for that.
pub(crate) async fn resume(engine: &Arc<Engine>, lease: &Lease) -> Result<LockGuard, ResumeError> {
    let token = Token::parse(lease.token()).ok_or(ResumeError::Token)?;
    let request = LockRequest::all(lease.resources()).ttl(lease.ttl());
    let plan = engine.settings.plan(&request)?;
    if engine.holders.is_shut() {
        return Err(ResumeError::ShutDown);
    }
    let runtime = engine.settings.runtime();
    let now = runtime.now();
    let attempt = Arc::new(Attempt::with_token(engine, &runtime, &plan, now, token));
    engine.holders.add(&attempt);
    // The key may be anywhere. Nodes that had not granted it may have had no answer yet, and do not
    // count before that is settled.
    let all = NodeSet::all(engine.members.len());
    for node in all.iter() {
        attempt.touch(node);
        attempt.set_granted(node, NodeSet(lease.granted).contains(node));
    }
    if attempt.granted() != all {
        attempt.doubt(now);
    }
    let hold = lease.get_hold_at_least();
    if !hold.is_zero() {
        attempt.hold_until(now.saturating_add(hold));
    }
    extend::resume(&attempt).await?;
    if let Some(renewal) = plan.renewal {
        renewer::start(&attempt, renewal);
    }
    Ok(LockGuard::new(Held::new(attempt, plan.resource)))
}
