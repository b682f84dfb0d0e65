//! What the engine tells `tracing` and an [`Observer`], one function for each event: see the
//! [crate docs](crate#what-it-logs).
//!
//! An event costs next to nothing while nobody listens. No function is to be called under a mutex, since
//! what listens is foreign code.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::display::Name;
use crate::error::{AcquireError, Loss};
use crate::fencing::FencingToken;
use crate::held::Votes;
use crate::node::{NodeError, Token};
use crate::observer::{
    Acquired, Extended, LockId, Lost, NodeDown, NotAcquired, NotExtended, Observer,
    QuorumOutOfReach, ReleaseOutcome, Released,
};
use crate::runtime::contain;

/// The observer of a lock, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Events {
    observer: Option<Arc<dyn Observer>>,
}

/// A lock that was acquired, as its events name it.
#[derive(Clone, Copy)]
pub(crate) struct LockName<'a> {
    pub(crate) resource: &'a [u8],
    pub(crate) token: &'a Token,
}

impl LockName<'_> {
    /// Not made unless somebody reads it.
    fn id(&self) -> LockId {
        LockId::of(self.token)
    }
}

impl Events {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
        }
    }

    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            contain(|| tell(&**observer));
        }
    }

    pub(crate) fn acquired(
        &self,
        lock: LockName<'_>,
        attempts: u32,
        waited: Duration,
        votes: Votes,
        fencing_token: Option<FencingToken>,
    ) {
        tracing::debug!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            attempts,
            waited_us = micros(waited),
            granted = votes.granted,
            nodes = votes.nodes,
            fencing_token = fencing_token.map(FencingToken::get),
            "acquired"
        );
        self.tell(|observer| {
            observer.acquired(&Acquired {
                resource: lock.resource,
                lock: lock.id(),
                waited,
                attempts,
                votes,
                fencing_token,
            });
        });
    }

    /// A contended lock is normal; every other failure matters to operators.
    pub(crate) fn not_acquired(&self, resource: &[u8], error: &AcquireError) {
        match error {
            AcquireError::Contended(contended) => tracing::debug!(
                target: "lock_core",
                resource = %Name(resource),
                attempts = contended.attempts,
                waited_us = micros(contended.waited),
                "contended"
            ),
            error => tracing::debug!(
                target: "lock_core",
                resource = %Name(resource),
                error = %error,
                "not acquired"
            ),
        }
        self.tell(|observer| observer.not_acquired(&NotAcquired { resource, error }));
    }

    /// `remaining` is called only if somebody listens.
    pub(crate) fn extended(&self, lock: LockName<'_>, remaining: impl Fn() -> Duration) {
        tracing::debug!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            remaining_us = micros(remaining()),
            "extended"
        );
        self.tell(|observer| {
            observer.extended(&Extended {
                resource: lock.resource,
                lock: lock.id(),
                remaining: remaining(),
            });
        });
    }

    pub(crate) fn not_extended(
        &self,
        lock: LockName<'_>,
        remaining: Duration,
        error: &dyn fmt::Display,
    ) {
        tracing::debug!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            remaining_us = micros(remaining),
            error = %error,
            "not extended"
        );
        self.tell(|observer| {
            observer.not_extended(&NotExtended {
                resource: lock.resource,
                lock: lock.id(),
                remaining,
            });
        });
    }

    pub(crate) fn lost(&self, lock: LockName<'_>, loss: Loss, held: Duration) {
        tracing::warn!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            held_us = micros(held),
            %loss,
            "lost"
        );
        self.tell(|observer| {
            observer.lost(&Lost {
                resource: lock.resource,
                lock: lock.id(),
                loss,
                held,
            });
        });
    }

    /// `held` is called only if somebody listens.
    pub(crate) fn released(
        &self,
        lock: LockName<'_>,
        held: impl Fn() -> Duration,
        outcome: ReleaseOutcome,
    ) {
        tracing::debug!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            held_us = micros(held()),
            outcome = outcome.as_str(),
            "release"
        );
        self.tell(|observer| {
            observer.released(&Released {
                resource: lock.resource,
                lock: lock.id(),
                held: held(),
                outcome,
            });
        });
    }

    /// Once, until it is up again.
    pub(crate) fn node_down(&self, node: &str, error: &NodeError) {
        tracing::warn!(target: "lock_core", node, %error, "node is down");
        self.tell(|observer| observer.node_down(&NodeDown { node, error }));
    }

    pub(crate) fn node_up(&self, node: &str) {
        tracing::info!(target: "lock_core", node, "node is up again");
        self.tell(|observer| observer.node_up(node));
    }

    /// Once, until it is back.
    pub(crate) fn quorum_out_of_reach(&self, up: usize, quorum: usize) {
        tracing::warn!(target: "lock_core", up, quorum, "quorum is out of reach");
        self.tell(|observer| observer.quorum_out_of_reach(&QuorumOutOfReach { up, quorum }));
    }

    pub(crate) fn quorum_back(&self) {
        tracing::info!(target: "lock_core", "quorum is back");
        self.tell(|observer| observer.quorum_back());
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_observed = self.observer.is_some();
        f.debug_struct("Events")
            .field("is_observed", &is_observed)
            .finish()
    }
}

/// A guard was dropped, perhaps by mistake: `is_at_once` is called only if somebody listens.
pub(crate) fn dropped_at_once(lock: LockName<'_>, is_at_once: impl FnOnce() -> bool) {
    if tracing::enabled!(target: "lock_core", tracing::Level::DEBUG) && is_at_once() {
        tracing::debug!(
            target: "lock_core",
            resource = %Name(lock.resource),
            lock = %lock.id(),
            hint = "`let _ = ..` drops a guard in the same statement: bind it to a name, as `_guard`",
            "guard was dropped at once"
        );
    }
}

/// The end of one call to one node.
pub(crate) fn answer(node: &str, operation: &'static str, error: Option<&NodeError>) {
    match error {
        None => tracing::trace!(target: "lock_core", node, operation, "answered"),
        Some(error) => {
            tracing::trace!(target: "lock_core", node, operation, %error, "not answered");
        }
    }
}

/// A release that got no definite answer, and is sent again.
pub(crate) fn owed(node: &str, lock: LockName<'_>) {
    tracing::debug!(
        target: "lock_core",
        node,
        resource = %Name(lock.resource),
        lock = %lock.id(),
        "release owed"
    );
}

/// A release that was owed, and is not sent any more since there are too many: the key lives until its
/// ttl ends.
pub(crate) fn given_up(node: &str, lock: LockName<'_>) {
    tracing::warn!(
        target: "lock_core",
        node,
        resource = %Name(lock.resource),
        lock = %lock.id(),
        "release given up"
    );
}

/// Two nodes that are one server.
pub(crate) fn twin(node: &str, other: &str) {
    tracing::warn!(target: "lock_core", node, other, "node is the same server as another");
}

/// Once for each node.
pub(crate) fn several_addresses(host: &str, addresses: usize) {
    tracing::warn!(
        target: "lock_core",
        host,
        addresses,
        "the name of a node has several addresses: they must lead to one server"
    );
}

/// One round of automatic extensions.
pub(crate) fn extended_together(locks: usize, extended: usize, took: Duration) {
    tracing::debug!(
        target: "lock_core",
        locks,
        extended,
        took_us = micros(took),
        "extended together"
    );
}

/// Microseconds: a lock takes less than a millisecond.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_is_read_for_an_event_while_nobody_listens() {
        let (events, token) = (Events::default(), Token::from_random([7; 16]));
        let lock = LockName {
            resource: b"k",
            token: &token,
        };
        events.extended(lock, || unreachable!("somebody reads the clock"));
        let held = || unreachable!("somebody reads the clock");
        events.released(lock, held, ReleaseOutcome::Released);
    }
}
