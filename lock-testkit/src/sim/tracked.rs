//! [`TrackedGuard`]: a guard, and what its holder believes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::join;
use lock_core::{ExtendError, Lease, LockGuard, LockRequest, ReleaseError};

use super::client::SimClient;
use super::coverage::Mark;
use super::watch::watch;

/// A guard whose holder's beliefs are recorded in the ledger.
#[derive(Debug)]
pub struct TrackedGuard {
    // Dropped first: the belief ends before the guard does.
    belief: Belief,
    guard: Arc<LockGuard>,
}

/// The beliefs in a lock, one for each resource, until it is given back.
#[derive(Debug)]
struct Belief {
    client: SimClient,
    holds: Range<usize>,
    ttl: Duration,
    /// Its end may move while an extension is under way: by automatic extensions, or because
    /// several locks are extended one by one.
    is_put_off: bool,
    watched: Option<oneshot::Sender<()>>,
}

impl TrackedGuard {
    pub(crate) fn new(
        client: &SimClient,
        guard: LockGuard,
        request: &LockRequest,
        began: Duration,
    ) -> Self {
        let remaining = guard.remaining();
        let mut world = client.shared.world();
        let holds = world.begin_holds(client.id, &guard, request, began, remaining);
        world.begin_life(client.id, guard.token(), request);
        if holds.len() > 1 {
            world.mark(Mark::Several);
        }
        let one_by_one = holds.len() > 1 && world.servers.iter().any(|it| it.wants_one_slot);
        drop(world);
        let is_renewed = request.options().auto_extend == Some(true);
        let belief = Belief {
            client: client.clone(),
            holds,
            ttl: request.options().ttl.unwrap_or(remaining),
            is_put_off: is_renewed || one_by_one,
            watched: None,
        };
        let guard = Arc::new(guard);
        let mut tracked = Self { belief, guard };
        if is_renewed {
            tracked.watch();
        }
        tracked
    }

    /// Listens for the loss of the lock from now on, and judges when it is told. A lock that is
    /// extended automatically is watched in any case.
    pub fn watch(&mut self) {
        let belief = &mut self.belief;
        if belief.watched.is_none() {
            let holds = belief.holds.clone();
            belief.watched = Some(watch(&belief.client, &self.guard, holds, belief.ttl));
        }
    }

    /// Returns the guard.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Returns the lock's ttl.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.belief.ttl
    }

    /// Writes to the register of the lock, with the fencing token if it has one, without a look at the guard.
    pub fn write(&self) {
        let mut world = self.belief.client.shared.world();
        world.write_to_register(self.belief.holds.start);
    }

    /// Extends the lock, and judges the result.
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::extend`].
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let client = &self.belief.client;
        let before = self.end_by_clock();
        let began = {
            let mut world = client.shared.world();
            world.extends_by_hand(self.guard.token());
            world.now
        };
        let result = self.guard.extend(ttl).await;
        // A wall clock that ran ahead ends a lock early too.
        let ran_ahead = client.shared.world().clients[client.id.0].wall_set_at >= began;
        let after = self.end_by_clock();
        let now = client.runtime.now();
        let mark = match &result {
            Ok(()) => Mark::Extended,
            Err(ExtendError::Unavailable { .. }) => Mark::ExtendUnavailable,
            Err(_) => Mark::ExtendLost,
        };
        client.mark(mark);
        client.note(|| format!("extend ended: {mark:?}, {:?} left", self.guard.remaining()));
        let is_put_off = self.belief.is_put_off;
        match (before, after) {
            (None, Some(_)) => self.wrong("a lost lock was valid again".to_owned()),
            (None, None) if result.is_ok() => self.wrong("a lost lock was extended".to_owned()),
            // A lock that is called lost is not valid any more.
            (Some(before), None)
                if before > now
                    && !is_put_off
                    && !ran_ahead
                    && !matches!(result, Err(ExtendError::Lost)) =>
            {
                self.wrong(format!(
                    "an extension ended a lock early, {:?} early",
                    before - now
                ));
            }
            (Some(before), Some(after)) if after < before => {
                self.wrong(format!("an extension took {:?} away", before - after));
            }
            (Some(before), Some(after)) if before <= now && after > now && !is_put_off => {
                self.wrong("a lock whose time ended meanwhile was valid again".to_owned());
            }
            _ => {}
        }
        let remaining = self.guard.remaining();
        let mut world = client.shared.world();
        world.renew_holds(&self.belief.holds, remaining);
        drop(world);
        result
    }

    fn wrong(&self, text: String) {
        self.belief.client.violation("extension", text);
    }

    /// Returns when the guard ends by the client's clock; `None` if it has ended.
    fn end_by_clock(&self) -> Option<Duration> {
        let remaining = self.guard.remaining();
        (!remaining.is_zero()).then(|| self.belief.client.runtime.now() + remaining)
    }

    /// Records that the lock is to stay taken until this moment of the client's clock, whatever
    /// happens.
    pub(crate) fn keep_until(&self, until: Duration) {
        let mut world = self.belief.client.shared.world();
        world.keep_hold(self.belief.holds.start, until);
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::release`].
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.belief.end();
        let result = self.guard.release().await;
        self.belief.released(&self.guard, &result);
        result
    }

    /// Releases the lock while an extension of it is under way.
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::release`].
    pub async fn extend_and_release(self, ttl: Duration) -> Result<(), ReleaseError> {
        self.belief
            .client
            .shared
            .world()
            .extends_by_hand(self.guard.token());
        let extend = self.guard.extend(ttl);
        let release = async {
            self.belief.end();
            self.guard.release().await
        };
        let (_, result) = join(extend, release).await;
        self.belief.released(&self.guard, &result);
        result
    }

    /// Turns the lock into a lease; `None` if it cannot be handed over.
    pub fn into_lease(self) -> Option<Lease> {
        let Self { belief, guard } = self;
        let lease = Arc::into_inner(guard)?.into_lease();
        let client = &belief.client;
        client.note(|| format!("hands over: {}", lease.is_some()));
        if let Some(lease) = &lease {
            client.shared.world().hand_over(&belief.holds, lease);
        }
        lease
    }
}

impl Belief {
    /// Records that the holder gives the lock back. Returns whether this is the first time.
    fn end(&self) -> bool {
        self.client.shared.world().end_holds(&self.holds)
    }

    fn released(&self, guard: &LockGuard, result: &Result<(), ReleaseError>) {
        let client = &self.client;
        client.mark(match result {
            Ok(()) => Mark::Released,
            Err(ReleaseError::NotHeld) => Mark::ReleasedNotHeld,
            Err(_) => Mark::ReleaseUnavailable,
        });
        client.note(|| format!("release ended: {result:?}"));
        if guard.is_valid() {
            client.violation("extension", "a released lock is valid".to_owned());
        }
        if result.is_ok() {
            client.shared.world().note_released(&self.holds);
        }
    }
}

impl Drop for Belief {
    fn drop(&mut self) {
        if self.end() {
            self.client.mark(Mark::Dropped);
        }
    }
}
