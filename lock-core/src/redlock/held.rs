//! A Redlock that is held: what stands behind its guard, and how it goes from one guard to another
//! as data.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::acquisition::Acquisition;
use super::engine::Engine;
use super::protocol::NodeSet;
use super::renewals::Renewable;
use super::{extend, release, renew};
use crate::error::{ExtendError, Loss, NodeReports, NodeVote, ReleaseError, ResumeError};
use crate::events;
use crate::fencing::FencingToken;
use crate::guard::LockGuard;
use crate::held::{HeldLock, HeldReport, Votes};
use crate::lease::Lease;
use crate::node::{NodeErrorKind, Token};
use crate::observer::LockId;
use crate::request::LockRequest;
use crate::runtime::BoxFuture;

/// A lock that a quorum granted.
#[derive(Debug)]
pub(crate) struct Held {
    lock: Arc<Acquisition>,
    resource: Arc<[u8]>,
    /// When it was acquired.
    since: Duration,
}

/// A guard that is dropped so soon was perhaps never meant to be.
const AT_ONCE: Duration = Duration::from_millis(1);

impl Held {
    pub(crate) fn new(lock: Arc<Acquisition>, resource: Arc<[u8]>, since: Duration) -> Self {
        Self {
            lock,
            resource,
            since,
        }
    }

    pub(crate) fn lock(&self) -> &Arc<Acquisition> {
        &self.lock
    }
}

#[async_trait]
impl HeldLock for Held {
    fn resource(&self) -> &[u8] {
        &self.resource
    }

    fn token(&self) -> &str {
        self.lock.token.as_str()
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        self.lock.fencing_token.get().copied()
    }

    fn remaining(&self) -> Duration {
        self.lock.remaining()
    }

    fn votes(&self) -> Votes {
        self.lock.votes()
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(Arc::clone(&self.lock).lost())
    }

    fn hand_over(&self) -> Option<Lease> {
        let lock = &self.lock;
        let now = lock.look();
        let remaining = lock.remaining_at(now);
        let is_ours = || mutant!(LeaseReleasedOnDrop) || release::leave_to_others(lock);
        if remaining.is_zero() || !is_ours() {
            return None;
        }
        let (held_until, is_everywhere) = {
            let ledger = lock.ledger();
            let all = NodeSet::all(lock.quorum().nodes());
            (ledger.held_until(), ledger.granted() == all)
        };
        let ttl = lock.timing.ttl.as_duration();
        let resources = lock.resources().collect();
        let lease = Lease::new(resources, lock.token.as_str(), ttl, remaining)
            .with_hold_at_least(held_until.saturating_sub(now))
            .with_fencing_token(self.fencing_token());
        // An older token stands where a node has not answered since.
        let old = lock.old.iter().filter(|_| !is_everywhere);
        let lease = old.fold(lease, |lease, old| lease.or_by(old.as_str(), MAX_TOKENS));
        lock.end();
        Some(lease)
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        extend::extend(&self.lock, ttl).await
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        release::release(&self.lock).await
    }

    fn set_scoped(&self, is_scoped: bool) {
        self.lock.set_scoped(is_scoped);
    }

    fn release_in_background(&self) {
        let lock = &self.lock;
        if release::release_in_background(lock) {
            let now = || lock.runtime.now();
            let is_at_once = || now().saturating_sub(self.since) < AT_ONCE;
            events::dropped_at_once(lock.name(), is_at_once);
        }
    }
}

/// What is held at present, the oldest first.
pub(crate) fn all(engine: &Engine) -> Vec<HeldReport> {
    let mut all: Vec<_> = engine
        .registry
        .all()
        .iter()
        .filter_map(|lock| report(lock))
        .collect();
    all.sort_by_key(|held| std::cmp::Reverse(held.age));
    all
}

/// `None` for what is not held yet, or no more.
fn report(lock: &Acquisition) -> Option<HeldReport> {
    let now = lock.look();
    let remaining = lock.remaining_at(now);
    if remaining.is_zero() {
        return None;
    }
    Some(HeldReport {
        resources: lock.resources().collect(),
        age: now.saturating_sub(lock.started),
        remaining,
        votes: lock.votes(),
        owner: lock.token.note().map(str::to_owned),
        fencing_token: lock.fencing_token.get().copied(),
        lock: LockId::of(&lock.token),
        is_auto_extended: lock.renewed().is_some_and(|renewed| renewed.goes_on(now)),
    })
}

/// The most tokens that a lease names.
const MAX_TOKENS: usize = 8;

/// Makes a guard of the data, if the lock is held by it still: its token is exchanged for that.
pub(crate) async fn resume(engine: &Arc<Engine>, lease: &Lease) -> Result<LockGuard, ResumeError> {
    let old = lease.tokens().map(Token::parse);
    let old = old.collect::<Option<Vec<_>>>().ok_or(ResumeError::Token)?;
    // It has the fencing token of the lease, or none.
    let request = LockRequest::many(lease.resources())
        .ttl(lease.ttl())
        .fencing(false);
    let plan = engine.settings().plan(&request)?;
    if engine.registry.is_shut() {
        return Err(ResumeError::ShutDown);
    }
    let runtime = engine.settings().runtime();
    let began = engine.settings().beginning(&*runtime, runtime.now());
    let now = began.now;
    let token = engine.settings().token(&*runtime);
    let lock = Acquisition::new(&engine.nodes, &runtime, &plan, began, token);
    let lock = Arc::new(lock.of_lease(old));
    if let Some(token) = lease.fencing_token() {
        lock.fencing_token.get_or_init(|| token);
    }
    if !mutant!(ShutdownForgetsResumed) {
        lock.register(&engine.registry);
    }
    // A shutdown may have come in between, and does not know of it then.
    if engine.registry.is_shut() {
        return Err(ResumeError::ShutDown);
    }
    {
        let mut ledger = lock.ledger();
        let hold = lease.hold_at_least();
        if !hold.is_zero() {
            ledger.hold_until(now.saturating_add(hold));
        }
        let is_believed = mutant!(LeaseWithoutProof);
        let valid_until = now.saturating_add(lock.timing.validity);
        if is_believed && !ledger.is_extended(began, valid_until, now) {
            return Err(ResumeError::Lost);
        }
    }
    if !mutant!(LeaseWithoutProof)
        && let Err(error) = Resuming::run(&lock).await
    {
        // Nothing can resume it any more, so nothing else gives back what some nodes still have.
        if matches!(error, ExtendError::Lost) && !mutant!(LeaseLostLeavesKeys) {
            release::release_in_background(&lock);
        }
        // A shutdown releases whatever it finds under way.
        if engine.registry.is_shut() {
            return Err(ResumeError::ShutDown);
        }
        return Err(match error {
            ExtendError::Invalid(invalid) => ResumeError::Invalid(invalid),
            ExtendError::Lost => ResumeError::Lost,
            ExtendError::Unavailable { quorum, nodes } => {
                let lease = match is_exchanged_nowhere(&nodes) {
                    true => lease.clone(),
                    false => lease.clone().or_by(token.as_str(), MAX_TOKENS),
                };
                // From now on it is for whoever has that lease.
                release::leave_to_others(&lock);
                lock.end();
                let lease = Box::new(lease);
                ResumeError::Unavailable {
                    quorum,
                    nodes,
                    lease,
                }
            }
        });
    }
    if let Some(renewal) = plan.renewal {
        renew::start(engine, &lock, renewal);
    }
    let since = runtime.now();
    Ok(LockGuard::new(Held::new(lock, plan.resource, since)))
}

/// Returns whether no node can have exchanged anything.
fn is_exchanged_nowhere(nodes: &NodeReports) -> bool {
    let mut votes = nodes.as_slice().iter().map(|report| &report.vote);
    votes.all(|vote| match vote {
        NodeVote::Refused => true,
        NodeVote::Failed(error) => error.kind() == NodeErrorKind::NotSent,
        _ => false,
    })
}

/// A lock whose token is being exchanged. If it is dropped meanwhile, the nodes get the lease's token
/// back, since nobody knows of the new one.
struct Resuming(Option<Arc<Acquisition>>);

impl Resuming {
    async fn run(lock: &Arc<Acquisition>) -> Result<(), ExtendError> {
        let mut resuming = Self(Some(Arc::clone(lock)));
        let result = extend::resume(lock).await;
        resuming.0 = None;
        result
    }
}

impl Drop for Resuming {
    fn drop(&mut self) {
        let Some(lock) = self.0.take() else { return };
        // Otherwise a shutdown releases it.
        if release::leave_to_others(&lock) {
            lock.end();
            extend::give_back(lock);
        }
    }
}
