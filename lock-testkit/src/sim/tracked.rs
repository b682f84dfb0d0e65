//! Guards, and what their holders believe.

use std::time::Duration;

use lock_core::{ExtendError, LockGuard, ReleaseError};

use super::marks::Mark;
use super::stage::Seat;

/// A guard whose holder's belief the ledger knows.
#[derive(Debug)]
pub struct Tracked {
    guard: LockGuard,
    seat: Seat,
    hold: usize,
}

impl Tracked {
    pub(crate) fn new(seat: &Seat, guard: LockGuard) -> Self {
        let remaining = guard.remaining();
        let mut world = seat.shared.world();
        let hold = world.begin_hold(seat.client, &guard, remaining);
        drop(world);
        Self {
            guard,
            seat: seat.clone(),
            hold,
        }
    }

    /// The guard.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Extends the lock, and judges what comes of it.
    ///
    /// # Errors
    ///
    /// As of the guard.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let before = self.end_by_clock();
        let result = self.guard.extend(ttl).await;
        let after = self.end_by_clock();
        let now = self.seat.runtime.now();
        let mark = match &result {
            Ok(()) => Mark::Extended,
            Err(ExtendError::Unavailable { .. }) => Mark::ExtendUnavailable,
            Err(_) => Mark::ExtendLost,
        };
        self.seat.mark(mark);
        self.seat
            .note(|| format!("extend ended: {mark:?}, {:?} left", self.guard.remaining()));
        match (before, after) {
            (None, Some(_)) => self.wrong("a lost lock was valid again".to_owned()),
            (None, None) if result.is_ok() => self.wrong("a lost lock was extended".to_owned()),
            // Who is told that the lock is lost does not call it valid any more.
            (Some(before), None) if before > now && !matches!(result, Err(ExtendError::Lost)) => {
                self.wrong(format!(
                    "an extension ended a lock early, {:?} early",
                    before - now
                ));
            }
            (Some(before), Some(after)) if after < before => {
                self.wrong(format!("an extension took {:?} away", before - after));
            }
            (Some(before), Some(after)) if before <= now && after > now => {
                self.wrong("a lock whose time ended meanwhile was valid again".to_owned());
            }
            _ => {}
        }
        let remaining = self.guard.remaining();
        self.seat.shared.world().renew_hold(self.hold, remaining);
        result
    }

    fn wrong(&self, text: String) {
        self.seat.violation("extension", text);
    }

    /// When the guard ends by the client's clock.
    fn end_by_clock(&self) -> Option<Duration> {
        let remaining = self.guard.remaining();
        (!remaining.is_zero()).then(|| self.seat.runtime.now() + remaining)
    }

    /// The lock was asked to stay taken until then by the client's clock, whatever happens.
    pub(crate) fn keep_until(&self, until: Duration) {
        self.seat.shared.world().keep_hold(self.hold, until);
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// As of the guard.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.seat.shared.world().end_hold(self.hold);
        let result = self.guard.release().await;
        self.seat.mark(match &result {
            Ok(()) => Mark::Released,
            Err(ReleaseError::NotHeld) => Mark::ReleasedNotHeld,
            Err(_) => Mark::ReleaseUnavailable,
        });
        self.seat.note(|| format!("release ended: {result:?}"));
        result
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if self.seat.shared.world().end_hold(self.hold) {
            self.seat.mark(Mark::Dropped);
        }
    }
}
