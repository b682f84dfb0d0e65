//! One attempt to acquire, and the lock that it may become: what its calls share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::engine::Engine;
use super::holders::Seat;
use super::keys::Keys;
use super::loss::LossSignal;
use super::member::Member;
use super::protocol::{AcquireAnswer, Debt, KeyAnswer, NodeSet, Timing};
use super::release::ReleaseState;
use super::renewer::Renewed;
use super::settings::Plan;
use super::{collector, protocol};
use crate::error::Loss;
use crate::node::{Command, NodeError, NodeErrorKind, Token};
use crate::runtime::Runtime;
use crate::trace;

/// For so long after a command that sets a key was sent, and its answer did not come, the key may
/// vanish again: the client may have sent a release behind the command (rule N12).
pub(super) const DOUBT: Duration = Duration::from_secs(20);

/// One attempt with its token, from the first send until nothing of it is left anywhere.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) keys: Keys,
    pub(crate) token: Token,
    pub(crate) timing: Timing,
    /// Before the first send.
    pub(crate) started: Duration,
    pub(super) seat: Seat,
    pub(super) release: Mutex<ReleaseState>,
    pub(super) loss: LossSignal,
    /// How the lock is extended automatically, if it is.
    pub(super) renewed: OnceLock<Box<Renewed>>,
    /// Until when a lock that was won can be relied on, in ns. It never goes back.
    valid_until: AtomicU64,
    /// Failed, cancelled, lost or released: nothing may be set any more, and late grants are
    /// released.
    is_over: AtomicBool,
    /// The nodes where a key of this attempt may be.
    touched: AtomicU64,
    /// The nodes that are known to hold the key.
    granted: AtomicU64,
    /// From when on nodes that hold the key though they have not granted it count, in ns.
    doubt_until: AtomicU64,
    /// The nodes where a release has taken the key of the held lock, or may have.
    released: AtomicU64,
    /// The lock was held for certain when its first release began.
    ended_in_time: AtomicBool,
    /// The longest ttl that any key of this attempt was given, in ms.
    longest_ttl: AtomicU64,
    /// Until when a release keeps the keys, in ns.
    hold_until: AtomicU64,
}

impl Attempt {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        runtime: &Arc<dyn Runtime>,
        plan: &Plan,
        now: Duration,
    ) -> Self {
        let token = Token::generate(&**runtime);
        Self::with_token(engine, runtime, plan, now, token)
    }

    /// With the token of another one, whose lock it goes on with.
    pub(crate) fn with_token(
        engine: &Arc<Engine>,
        runtime: &Arc<dyn Runtime>,
        plan: &Plan,
        now: Duration,
        token: Token,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            runtime: Arc::clone(runtime),
            keys: plan.keys.clone(),
            token,
            timing: plan.timing,
            started: now,
            seat: Seat::default(),
            release: Mutex::default(),
            loss: LossSignal::default(),
            renewed: OnceLock::new(),
            valid_until: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            touched: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            doubt_until: AtomicU64::new(0),
            released: AtomicU64::new(0),
            ended_in_time: AtomicBool::new(false),
            longest_ttl: AtomicU64::new(plan.timing.ttl.as_millis()),
            hold_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn member(&self, node: usize) -> &Member {
        &self.engine.members[node]
    }

    pub(crate) fn quorum(&self) -> protocol::Quorum {
        self.engine.settings.quorum
    }

    /// How long this node may take for a command of this attempt.
    pub(crate) fn within(&self, node: usize) -> Duration {
        self.within_of(node, self.timing)
    }

    /// The same for a command with another ttl. More than the validity would be of no use.
    pub(crate) fn within_of(&self, node: usize, timing: Timing) -> Duration {
        let connect_timeout = self.engine.settings.connect_timeout;
        let within = self
            .member(node)
            .within(timing.node_timeout, connect_timeout);
        within.min(timing.validity)
    }

    /// The release of what this attempt has set. It deletes the key, unless the lock was won with
    /// the promise to keep it for a while.
    pub(crate) fn release_command(&self) -> Command {
        let until = self.held_until();
        let keep = if until.is_zero() || mutant!(ClaimsDeletedOnRelease) {
            Duration::ZERO
        } else {
            until.saturating_sub(self.runtime.now())
        };
        Command::from(self.keys.release(self.token, keep))
    }

    /// The lock was won, and even a release keeps it until then.
    pub(crate) fn hold_until(&self, until: Duration) {
        self.hold_until.store(nanos(until), Ordering::SeqCst);
    }

    pub(crate) fn held_until(&self) -> Duration {
        Duration::from_nanos(self.hold_until.load(Ordering::SeqCst))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What is left at `now` of the time in which the lock can be relied on.
    pub(crate) fn remaining_at(&self, now: Duration) -> Duration {
        if self.is_over() {
            return Duration::ZERO;
        }
        let valid_until = Duration::from_nanos(self.valid_until.load(Ordering::SeqCst));
        valid_until.saturating_sub(now)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.remaining_at(self.runtime.now())
    }

    /// The lock was won or extended.
    pub(crate) fn extend_validity(&self, until: Duration) {
        self.valid_until.fetch_max(nanos(until), Ordering::SeqCst);
    }

    /// A quorum of nodes has said that the lock is not ours. Whoever knows that must not call it
    /// valid, and nothing revives it.
    pub(crate) fn lose(&self) {
        // Who has released the lock, or handed it over, does not lose it.
        let is_news = self.end() || mutant!(ReleaseAsLoss);
        if is_news && self.loss.tell() {
            self.tell_of(Loss::Revoked);
        }
    }

    /// Has it logged that the lock is lost.
    pub(crate) fn tell_of(&self, loss: Loss) {
        let held = self.runtime.now().saturating_sub(self.started);
        trace::lost(self.keys.first(), loss, held);
    }

    /// From now on nothing may be set, and late grants are released. Whether it was not over before.
    pub(crate) fn end(&self) -> bool {
        let was_over = self.is_over.swap(true, Ordering::SeqCst);
        if let Some(renewed) = self.renewed.get()
            && !mutant!(RenewalOutlivesRelease)
        {
            self.engine.renewals.forget(renewed);
        }
        !was_over
    }

    /// The same by a release, which comes in time if the lock was still valid.
    pub(crate) fn end_held(&self, is_in_time: bool) {
        if is_in_time {
            self.ended_in_time.store(true, Ordering::SeqCst);
        }
        self.end();
    }

    /// Must be called before a command is sent that may set the key at the node.
    pub(crate) fn touch(&self, node: usize) {
        self.touched.fetch_or(NodeSet::of(node).0, Ordering::SeqCst);
    }

    pub(crate) fn untouch(&self, node: usize) {
        let others = !NodeSet::of(node).0;
        self.touched.fetch_and(others, Ordering::SeqCst);
        self.granted.fetch_and(others, Ordering::SeqCst);
    }

    pub(crate) fn touched(&self) -> NodeSet {
        NodeSet(self.touched.load(Ordering::SeqCst))
    }

    pub(crate) fn set_granted(&self, node: usize, is_granted: bool) {
        let bit = NodeSet::of(node).0;
        if is_granted {
            self.granted.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.granted.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    pub(crate) fn granted(&self) -> NodeSet {
        NodeSet(self.granted.load(Ordering::SeqCst))
    }

    pub(crate) fn note_ttl(&self, timing: Timing) {
        let millis = timing.ttl.as_millis();
        self.longest_ttl.fetch_max(millis, Ordering::Relaxed);
    }

    /// Keeps account of where a key may be.
    pub(crate) fn note_acquire(&self, node: usize, vote: &Result<AcquireAnswer, NodeError>) {
        match vote {
            Ok(AcquireAnswer::Granted) => self.set_granted(node, true),
            // Of several keys that are held the others may be there still.
            Ok(AcquireAnswer::Refused(_)) if self.may_have_others() => {
                self.set_granted(node, false);
            }
            Err(error) if error.kind() == NodeErrorKind::NotSent && self.may_have_others() => {
                self.set_granted(node, false);
            }
            Ok(AcquireAnswer::Refused(_)) => self.untouch(node),
            Err(error) if error.kind() == NodeErrorKind::NotSent => self.untouch(node),
            // A cluster that refuses several keys at once has set none of them.
            Err(error) if error.is_cross_slot() => self.untouch(node),
            Err(_) => self.doubt(self.runtime.now()),
        }
    }

    /// Whether a node where the keys could not be set again may have some of them.
    fn may_have_others(&self) -> bool {
        let was_won = self.valid_until.load(Ordering::SeqCst) != 0;
        self.keys.as_slice().len() > 1 && was_won
    }

    /// A command that sets the key has no answer at `now`, at least not yet.
    pub(crate) fn doubt(&self, now: Duration) {
        let until = nanos(now.saturating_add(DOUBT));
        self.doubt_until.fetch_max(until, Ordering::SeqCst);
    }

    /// Keeps account of what a node said to an extension; whether its yes can be relied on.
    pub(crate) fn note_extend(&self, node: usize, answer: KeyAnswer, now: Duration) -> bool {
        let is_sure =
            || mutant!(DoubtfulKeysVote) || nanos(now) >= self.doubt_until.load(Ordering::SeqCst);
        let is_granted = answer == KeyAnswer::Ours && (self.granted().contains(node) || is_sure());
        self.set_granted(node, is_granted);
        is_granted
    }

    /// Keeps account of where a key may be still. A release without a definite answer is sent
    /// again until it has one, or the ttl has passed.
    pub(crate) fn note_release(&self, node: usize, answer: &Result<KeyAnswer, NodeError>) {
        // Without an answer it was still ours only if the validity had not ended.
        let is_ours = match answer {
            Ok(answer) => *answer == KeyAnswer::Ours,
            Err(_) => self.ended_in_time.load(Ordering::SeqCst),
        };
        if is_ours {
            let bit = NodeSet::of(node).0;
            self.released.fetch_or(bit, Ordering::SeqCst);
        }
        match answer {
            Ok(_) => self.untouch(node),
            Err(_) if mutant!(DebtsForgotten) => {}
            Err(_) => {
                trace::owed(&self.member(node).label, self.keys.first());
                collector::owe(&self.engine, &self.runtime, node, self.debt());
            }
        }
    }

    pub(crate) fn released(&self) -> NodeSet {
        NodeSet(self.released.load(Ordering::SeqCst))
    }

    fn debt(&self) -> Debt {
        let ttl = Duration::from_millis(self.longest_ttl.load(Ordering::Relaxed));
        Debt {
            keys: self.keys.clone(),
            token: self.token,
            hold_until: self.held_until(),
            until: self.runtime.now().saturating_add(ttl),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.engine.holders.remove(self);
    }
}

/// Moments fit 64 bits of nanoseconds for 584 years.
pub(super) fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}
