//! What holders believe, in true time, and whether the servers bear it out.

use std::ops::Range;
use std::time::Duration;

use lock_core::{LockGuard, LockRequest};

use super::coverage::Mark;
use super::ledger::Hold;
use super::tasks::ClientId;
use super::world::World;

/// How long before its end a belief is held against the servers.
const JUST_BEFORE: Duration = Duration::from_micros(1);

impl World {
    /// Records that a client was handed a guard with this much validity left: one belief for each
    /// resource.
    pub(crate) fn begin_holds(
        &mut self,
        client: ClientId,
        guard: &LockGuard,
        request: &LockRequest,
        began: Duration,
        remaining: Duration,
    ) -> Range<usize> {
        let now = self.now;
        let first = self.ledger.holds.len();
        let attempt = self.ledger.attempt_of(guard.token());
        let mut keys = request.resources().map(<[u8]>::to_vec).collect::<Vec<_>>();
        if let (Some(attempt), [key]) = (attempt, &mut keys[..]) {
            *key = attempt.key().to_vec();
        }
        let holds = keys.into_iter().map(|key| {
            // A lock of another kind, or one of several that were acquired one by one: the belief
            // counts all the same, but not what servers hold.
            let attempt = attempt.filter(|attempt| attempt.keys.contains(&key));
            Hold {
                client,
                key,
                token: attempt.map(|attempt| attempt.token),
                asked_at: attempt.map_or(began, |attempt| attempt.started),
                acquired_at: now,
                believed_until: now,
                ended_at: None,
            }
        });
        let holds = holds.collect::<Vec<_>>();
        self.ledger.holds.extend(holds);
        self.note(|| format!("client {}: holds, {remaining:?} left", client.0));
        let holds = first..self.ledger.holds.len();
        for hold in holds.clone() {
            self.note_fence(hold, guard);
        }
        self.renew_holds(&holds, remaining);
        holds
    }

    /// Records that the holder believes in this much validity from now on.
    pub(crate) fn renew_holds(&mut self, holds: &Range<usize>, remaining: Duration) {
        for number in holds.clone() {
            self.renew_hold(number, remaining);
        }
    }

    fn renew_hold(&mut self, number: usize, remaining: Duration) {
        let now = self.now;
        let hold = &self.ledger.holds[number];
        let clock = &self.clients[hold.client.0].monotonic;
        let until = clock.true_at(clock.at(now) + remaining);
        if remaining.is_zero() {
            let hold = &mut self.ledger.holds[number];
            hold.believed_until = hold.believed_until.min(now);
            return;
        }
        if until <= hold.believed_until {
            return;
        }
        self.ledger.holds[number].believed_until = until;
        let judged_at = until.saturating_sub(JUST_BEFORE).max(now);
        self.at(judged_at, move |world| world.judge_belief(number, until));
    }

    /// Records that the holder gives the lock back. Returns whether this is the first time.
    pub(crate) fn end_holds(&mut self, holds: &Range<usize>) -> bool {
        let now = self.now;
        for hold in &mut self.ledger.holds[holds.clone()] {
            if hold.ended_at.is_some() {
                return false;
            }
            hold.ended_at = Some(now);
        }
        let hold = self.ledger.holds[holds.start].clone();
        if now > hold.believed_until {
            self.mark(Mark::Expired);
        }
        if let Some(attempt) = hold.token.and_then(|token| self.ledger.known(&token)) {
            attempt.ended_at = Some(now);
        }
        true
    }

    /// Records that a quorum of nodes confirmed the release.
    pub(crate) fn note_released(&mut self, holds: &Range<usize>) {
        let token = self.ledger.holds[holds.start].token;
        if let Some(attempt) = token.and_then(|token| self.ledger.known(&token)) {
            attempt.is_released = true;
        }
    }

    /// Records that the lock is to stay taken until this moment of the client's clock, released or
    /// not.
    pub(crate) fn keep_hold(&mut self, number: usize, until: Duration) {
        let hold = &self.ledger.holds[number];
        let Some(token) = hold.token else {
            return;
        };
        let clock = &self.clients[hold.client.0].monotonic;
        // The keys live no longer than their ttl, which began a little before the lock was won.
        let until = clock.true_at(until).min(hold.believed_until);
        let left = until.saturating_sub(self.now);
        self.ledger.kept.insert(token);
        if left.is_zero() {
            // The client was paused: the time in which the lock was to be kept is over.
            return;
        }
        // Servers' clocks may be faster, and count whole milliseconds.
        let sure = left.mul_f64(0.97).saturating_sub(Duration::from_millis(3));
        self.after(sure, move |world| world.judge_keeping(number));
    }

    fn judge_keeping(&mut self, number: usize) {
        let hold = self.ledger.holds[number].clone();
        let held = self.holding(&hold);
        if !self.ledger.clocks_failed && held < self.quorum {
            let client = hold.client.0;
            let text = format!("client {client} was to keep its lock, {held} nodes have it");
            self.ledger.violation("keeping", text);
        }
    }

    /// Returns how many servers hold the lock's key, or forgot it since it was asked for.
    fn holding(&mut self, hold: &Hold) -> usize {
        let now = self.now;
        let mut set = 0_u64;
        for (number, server) in self.servers.iter_mut().enumerate() {
            let token = hold.token.as_ref();
            if token.is_some_and(|token| server.holds(&hold.key, token, now)) {
                set |= 1 << number;
            }
        }
        let during = hold.asked_at..=now;
        for loss in &self.ledger.data_losses {
            if during.contains(&loss.at) {
                set |= 1 << loss.server.0;
            }
        }
        set.count_ones() as usize
    }

    /// Judges a belief just before it ends: a quorum of servers must still hold the key, or have
    /// forgotten it against the rules.
    fn judge_belief(&mut self, number: usize, until: Duration) {
        let hold = self.ledger.holds[number].clone();
        let is_over = hold.ended_at.is_some() || hold.believed_until != until;
        if hold.token.is_none() || is_over || self.ledger.clocks_failed {
            return;
        }
        let held = self.holding(&hold);
        if held < self.quorum {
            self.ledger.violation(
                "belief",
                format!(
                    "client {} believes until {until:?}, but only {held} nodes hold its key or \
                     forgot it, where {} must",
                    hold.client.0, self.quorum
                ),
            );
        }
    }
}
