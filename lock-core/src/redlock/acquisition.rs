//! One attempt to acquire, and the lock that it may become.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::select;

use super::node::Nodes;
use super::protocol::{Debt, Ledger, Moment, NodeSet, Quorum, Renewal, Timing};
use super::registry::{Registration, Registry};
use super::renewals::{Renewable, Renewals, Renewed};
use super::settings::Plan;
use crate::error::Loss;
use crate::events::{Events, LockName};
use crate::fencing::FencingToken;
use crate::held::Votes;
use crate::node::{Command, Fence, Keys, Token};
use crate::runtime::{Home, Runtime};
use crate::sync::locked;
use crate::ttl::Ttl;

/// One attempt with its token, from the first send until nothing of it is left anywhere.
///
/// It is shared by its calls, by the guard if it was won, and by what goes on in the background. It
/// only keeps account; operations act on it.
#[derive(Debug)]
pub(crate) struct Acquisition {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) keys: Keys,
    pub(crate) token: Token,
    /// What a key may hold instead, where the token was not exchanged yet: those of the lease.
    pub(crate) old: Vec<Token>,
    pub(crate) timing: Timing,
    /// The counters, if it is to have a fencing token.
    pub(crate) fence: Option<Fence>,
    /// Its fencing token, once that is fixed.
    pub(crate) fencing_token: OnceLock<FencingToken>,
    /// Where it lives.
    pub(crate) home: Home,
    /// Before the first send.
    pub(crate) started: Duration,
    ledger: Mutex<Ledger>,
    release: Mutex<ReleaseState>,
    loss: Mutex<LossState>,
    /// Operators were told that too few nodes answered its release.
    pub(crate) is_unreleased_told: AtomicBool,
    /// A body runs that is not to outlive the lock.
    is_scoped: AtomicBool,
    /// A task gives its keys to nodes that missed them.
    is_filled: AtomicBool,
    registration: OnceLock<Registration<Self>>,
    renewed: OnceLock<Box<Renewed<Self>>>,
}

/// How far the release of a lock has come. There is one at a time.
#[derive(Debug, Default)]
pub(crate) enum ReleaseState {
    /// Not begun, or too few nodes answered the last one.
    #[default]
    Idle,
    /// Under way, by a caller or in the background. Others wait for it.
    Running(Waiters),
    /// Over, with a definite answer: whether the lock was held. A lock that was handed over is not
    /// held here.
    Done { was_held: bool },
}

/// Whether the lock was lost, and who waits to hear of it.
#[derive(Debug)]
enum LossState {
    Untold(Waiters),
    Told(Loss),
}

/// The tasks that wait for something to end. They notice that this is dropped; nothing is ever sent.
///
/// Dropping it wakes them, which is foreign code: not to be done under a mutex.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<oneshot::Sender<Infallible>>);

/// How often a task that waits for a loss looks whether the machine was paused.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Acquisition {
    pub(crate) fn new(
        nodes: &Arc<Nodes>,
        runtime: &Arc<dyn Runtime>,
        plan: &Plan,
        began: Moment,
        token: Token,
    ) -> Self {
        let has_several = plan.keys.as_slice().len() > 1;
        let ledger = Ledger::new(has_several, plan.timing.ttl.as_duration(), began);
        Self {
            nodes: Arc::clone(nodes),
            runtime: Arc::clone(runtime),
            keys: plan.keys.clone(),
            token,
            old: Vec::new(),
            timing: plan.timing,
            fence: plan.fence.clone(),
            fencing_token: OnceLock::new(),
            home: plan.home,
            started: began.now,
            ledger: Mutex::new(ledger),
            release: Mutex::default(),
            loss: Mutex::new(LossState::Untold(Waiters::default())),
            is_unreleased_told: AtomicBool::new(false),
            is_scoped: AtomicBool::new(false),
            is_filled: AtomicBool::new(false),
            registration: OnceLock::new(),
            renewed: OnceLock::new(),
        }
    }

    /// The lock of a lease, whose keys hold these tokens.
    pub(crate) fn of_lease(self, old: Vec<Token>) -> Self {
        let all = NodeSet::all(self.quorum().nodes());
        self.ledger().take_over(all);
        Self { old, ..self }
    }

    /// A shutdown finds it from now on. To be called before anything is sent for it.
    pub(crate) fn register(self: &Arc<Self>, registry: &Arc<Registry<Self>>) {
        // Its last letters are as random as any. Behind them may be a note, which is not.
        let random = self.token.id().bytes().last().unwrap_or_default();
        self.registration.get_or_init(|| registry.add(self, random));
    }

    /// Has it extended automatically.
    pub(crate) fn renew(self: &Arc<Self>, renewals: &Arc<Renewals<Self>>, renewal: Renewal) {
        let entry = || Box::new(renewals.entry(renewal, self.started));
        self.renewed.get_or_init(entry);
        renewals.put(self, self.started.saturating_add(renewal.interval), 0);
    }

    pub(crate) fn quorum(&self) -> Quorum {
        self.nodes.quorum()
    }

    /// The resources that it stands for, without the lock's prefix.
    pub(crate) fn resources(&self) -> impl Iterator<Item = Vec<u8>> {
        let settings = &self.nodes.settings;
        let keys = self.keys.as_slice().iter();
        keys.map(|key| settings.resource(key).to_vec())
    }

    pub(crate) fn votes(&self) -> Votes {
        Votes::new(self.ledger().granted().len(), self.quorum().nodes())
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        locked(&self.ledger)
    }

    pub(crate) fn release_state(&self) -> MutexGuard<'_, ReleaseState> {
        locked(&self.release)
    }

    /// How long this node may take for a command of this attempt.
    pub(crate) fn within(&self, node: usize) -> Duration {
        self.nodes.within_of(node, self.timing)
    }

    /// The same for a release.
    pub(crate) fn release_within(&self, node: usize) -> Duration {
        let timeout = Timing::release_timeout(self.timing.node_timeout);
        self.nodes.within(node, timeout)
    }

    /// What the keys may hold instead of the token at this node.
    pub(crate) fn old_at(&self, node: usize) -> &[Token] {
        match self.old.is_empty() || self.ledger().granted().contains(node) {
            true => &[],
            false => &self.old,
        }
    }

    /// The command that sets the keys at a node which has missed or forgotten them. By script, which knows the
    /// lock's own token. It leaves the counter of a fencing token alone.
    pub(crate) fn copy_command(&self, ttl: Ttl) -> Command {
        let copy = self.keys.acquire(self.token, ttl, true);
        Command::from(copy.guarded_by(self.nodes.settings.guard.as_ref()))
    }

    /// The exchange of the lease's tokens for the lock's own.
    pub(crate) fn exchange_command(&self, ttl: Ttl) -> Command {
        let old = Arc::from(&self.old[..]);
        Command::from(self.keys.exchange(self.token, old, ttl))
    }

    /// The release of what this attempt has set, or of an old token. It deletes the key, unless the lock
    /// was won with the promise to keep it for a while.
    pub(crate) fn release_command(&self, token: Token) -> Command {
        let until = self.ledger().held_until();
        let keep = match until.is_zero() || mutant!(ClaimsDeletedOnRelease) {
            true => Duration::ZERO,
            false => until.saturating_sub(self.runtime.now()),
        };
        Command::from(self.keys.release(token, keep))
    }

    /// The release as a debt of a node, until the key has expired.
    pub(crate) fn debt(&self, token: Token, until: Duration) -> Debt {
        Debt {
            keys: self.keys.clone(),
            token,
            hold_until: self.ledger().held_until(),
            until,
        }
    }

    pub(crate) fn remaining_at(&self, now: Duration) -> Duration {
        self.ledger().remaining_at(now)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.remaining_at(self.look())
    }

    /// Returns the present. If the machine was paused, the validity ends.
    pub(crate) fn look(&self) -> Duration {
        let present = self.nodes.settings.moment(&*self.runtime);
        self.ledger().look(present, self.timing.longest_pause());
        present.now
    }

    /// From now on nothing may be set, and late grants are released. Returns whether it was not over
    /// before.
    pub(crate) fn end(&self) -> bool {
        let is_news = self.ledger().end();
        self.stop_renewal();
        is_news
    }

    /// The same by a release, or by a shutdown that is about to release it. If the validity has ended
    /// before, the lock is lost.
    pub(crate) fn end_by_release(&self, now: Duration) {
        let is_late = self.ledger().end_by_release(now);
        self.stop_renewal();
        if is_late {
            self.expired();
        }
    }

    /// A shutdown is about to release it. Returns whether somebody waits to hear of that, or may just have
    /// heard of it from another shutdown.
    pub(crate) fn end_by_shutdown(&self, now: Duration) -> bool {
        // One that was released, or handed over, is not lost.
        if self.ledger().is_over() {
            let is_told = matches!(*locked(&self.loss), LossState::Told(Loss::ShutDown));
            return is_told && matches!(*self.release_state(), ReleaseState::Idle);
        }
        self.end_by_release(now);
        self.tell(Loss::ShutDown)
    }

    /// A quorum of nodes has said that the lock is not ours. Nothing revives it.
    pub(crate) fn lose(&self) {
        // A lock that was released, or handed over, is not lost.
        let is_news = self.end() || mutant!(ReleaseAsLoss);
        if is_news {
            self.tell(Loss::Revoked);
        }
    }

    /// The validity has ended, and nothing revives the lock.
    pub(crate) fn expired(&self) {
        self.tell(Loss::Expired);
    }

    pub(crate) fn events(&self) -> &Events {
        &self.nodes.settings.events
    }

    pub(crate) fn name(&self) -> LockName<'_> {
        LockName {
            resource: self.nodes.settings.resource(self.keys.first()),
            token: &self.token,
        }
    }

    /// Tells those who wait that the lock is lost, unless they were told before. Returns whether there
    /// were any.
    fn tell(&self, loss: Loss) -> bool {
        let waiters = match &mut *locked(&self.loss) {
            LossState::Told(_) => return false,
            untold => std::mem::replace(untold, LossState::Told(loss)),
        };
        let LossState::Untold(waiters) = waiters else {
            return false;
        };
        let is_awaited = waiters.are_any();
        if loss == Loss::Revoked && mutant!(LossOnExpiryOnly) {
            std::mem::forget(waiters);
            return false;
        }
        // Wakes those who wait: foreign code, which must not run under the mutex. They come before those who
        // only listen, who may take their time.
        drop(waiters);
        if loss != Loss::ShutDown {
            let held = self.runtime.now().saturating_sub(self.started);
            self.events().lost(self.name(), loss, held);
        }
        is_awaited
    }

    /// Ends when the lock is lost: when a quorum says so, a shutdown begins, or the validity ends,
    /// whichever comes first. It never ends for a lock that is released in time.
    pub(crate) async fn lost(self: Arc<Self>) -> Loss {
        loop {
            let told = match &mut *locked(&self.loss) {
                LossState::Untold(waiters) => waiters.add(),
                LossState::Told(loss) => return *loss,
            };
            let now = self.look();
            let left = {
                let mut ledger = self.ledger();
                let left = ledger.remaining_at(now);
                let is_told = !ledger.is_over() || mutant!(LossAfterRelease);
                if is_told && left.is_zero() {
                    ledger.expire();
                }
                is_told.then_some(left)
            };
            let Some(left) = left else {
                // By a release, which tells nothing; or by a loss that is about to be told.
                let Err(oneshot::Canceled) = told.await;
                continue;
            };
            if left.is_zero() {
                self.expired();
                return Loss::Expired;
            }
            let late = match mutant!(LossLate) {
                true => self.timing.node_timeout / 2,
                false => Duration::ZERO,
            };
            // It may have been extended when this time is over, or the machine was paused meanwhile.
            let pause = match self.nodes.settings.notice_pauses {
                true => (left + late).min(LOOK_EVERY),
                false => left + late,
            };
            select(told, self.runtime.sleep(pause)).await;
        }
    }

    pub(crate) fn set_scoped(&self, is_scoped: bool) {
        self.is_scoped.store(is_scoped, Ordering::SeqCst);
    }

    pub(crate) fn is_scoped(&self) -> bool {
        self.is_scoped.load(Ordering::SeqCst)
    }

    /// A task is to give its keys to nodes that missed them. Returns `false` if one does so already.
    pub(crate) fn begin_fill(&self) -> bool {
        !self.is_filled.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_fill(&self) {
        self.is_filled.store(false, Ordering::SeqCst);
    }

    /// It is not extended automatically any more.
    pub(crate) fn stop_renewal(&self) {
        if let Some(renewed) = self.renewed.get()
            && !mutant!(RenewalOutlivesRelease)
        {
            renewed.forget();
        }
    }
}

impl Waiters {
    /// Returns something that ends when these are dropped. It may itself be dropped at any time.
    pub(crate) fn add(&mut self) -> oneshot::Receiver<Infallible> {
        // A task that gave up leaves nothing behind.
        self.0.retain(|waiter| !waiter.is_canceled());
        let (sender, receiver) = oneshot::channel();
        self.0.push(sender);
        receiver
    }

    fn are_any(&self) -> bool {
        self.0.iter().any(|waiter| !waiter.is_canceled())
    }
}

impl Renewable for Acquisition {
    fn renewed(&self) -> Option<&Renewed<Self>> {
        self.renewed.get().map(|renewed| &**renewed)
    }

    fn is_over(&self) -> bool {
        self.ledger().is_over()
    }

    fn node_timeout(&self) -> Duration {
        self.timing.node_timeout
    }

    fn keys(&self) -> usize {
        self.keys.as_slice().len()
    }
}
