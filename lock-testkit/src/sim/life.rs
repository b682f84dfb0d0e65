//! The life of a lock, judged on true time: extensions, losses, leases and shutdowns.

use std::ops::Range;
use std::time::Duration;

use lock_core::{Lease, LockGuard, LockRequest, Loss, ResumeError, Token};

use super::coverage::Mark;
use super::ledger::{AttemptFacts, Vote};
use super::tasks::ClientId;
use super::world::World;

/// Clocks are read before and after the moment in question.
const SLACK: Duration = Duration::from_millis(1);

impl World {
    fn wrong(&mut self, invariant: &'static str, client: ClientId, text: &str) {
        let text = format!("client {}: {text}", client.0);
        self.ledger.violation(invariant, text);
    }

    /// Records until when the lock of a new guard may be extended automatically.
    pub(crate) fn begin_life(&mut self, client: ClientId, token: &str, request: &LockRequest) {
        let clock = self.clients[client.0].monotonic;
        let max_hold = request
            .options()
            .max_hold
            .unwrap_or(Duration::from_secs(3600));
        let Some(attempt) = self.ledger.attempt_of(token).map(|attempt| attempt.token) else {
            return;
        };
        if let Some(attempt) = self.ledger.known(&attempt) {
            let started = clock.at(attempt.started);
            let until = clock.true_at(started.saturating_add(max_hold)) + SLACK;
            let renews = request.options().auto_extend == Some(true);
            attempt.extends_until = renews.then_some(until);
        }
    }

    /// Records that the holder extends the lock too, at any time.
    pub(crate) fn extends_by_hand(&mut self, token: &str) {
        let token = self.ledger.attempt_of(token).map(|attempt| attempt.token);
        if let Some(attempt) = token.and_then(|token| self.ledger.known(&token)) {
            attempt.extends_until = None;
        }
    }

    /// Judges an extension that is being sent.
    pub(crate) fn judge_renewal(&mut self, client: ClientId, token: Token) {
        let now = self.now;
        let paused_until = self.clients[client.0].paused_until;
        let clocks_failed = self.ledger.clocks_failed;
        if self.servers.iter().any(|server| server.wants_one_slot) {
            // A cluster makes the client send a command again, slot by slot.
            return;
        }
        let Some(attempt) = self.ledger.known(&token) else {
            return;
        };
        if attempt.ended_at.is_some_and(|ended| ended < now) {
            let text = "it extends a lock that it has given back";
            return self.wrong("renewal", client, text);
        }
        // A client that was paused at that moment may be late.
        let is_over = |until: &Duration| *until < now && paused_until < *until;
        if attempt.extends_until.as_ref().is_some_and(is_over) && !clocks_failed {
            let text = "it extends a lock that has been held for the longest time";
            self.wrong("renewal", client, text);
        }
    }

    /// Judges that a holder was told of a loss.
    pub(crate) fn judge_loss(&mut self, holds: &Range<usize>, loss: Loss, ttl: Duration) {
        let now = self.now;
        let hold = self.ledger.holds[holds.start].clone();
        self.mark(match loss {
            Loss::Revoked => Mark::LostNotOurs,
            _ => Mark::LostExpired,
        });
        self.note(|| format!("client {}: lost, {loss:?}", hold.client.0));
        if loss == Loss::ShutDown {
            if self.clients[hold.client.0].shut_at.is_none() {
                self.wrong(
                    "loss",
                    hold.client,
                    "it was told of a shutdown that nobody asked for",
                );
            }
            return;
        }
        if hold.ended_at.is_some_and(|ended| ended < now) {
            return self.wrong("loss", hold.client, "it lost a lock that it had given back");
        }
        let mut tokens = self.ledger.holds[holds.clone()].iter();
        if tokens.any(|hold| hold.token.is_none()) {
            // If several locks were acquired one by one, any of them may be lost.
            return;
        }
        let Some(attempt) = hold.token.and_then(|token| self.ledger.attempt(&token)) else {
            return;
        };
        if loss == Loss::Revoked {
            let attempt = attempt.clone();
            let forgot = self.forgetful_since(attempt.started);
            let well = self.holding_well(&attempt, forgot, Duration::MAX);
            if well >= self.quorum {
                let text = format!("it was told of a loss, but {well} nodes hold its lock");
                self.wrong("loss", hold.client, &text);
            }
            return;
        }
        let since = now.saturating_sub(ttl / 2);
        let is_renewed = attempt.extends_until.is_some_and(|until| until > now);
        let was_paused = self.clients[hold.client.0].paused_until >= since;
        let wall_jumped = self.clients[hold.client.0].wall_set_at >= now.saturating_sub(ttl);
        if !is_renewed || was_paused || wall_jumped || self.ledger.clocks_failed {
            return;
        }
        let attempt = attempt.clone();
        let well = self.holding_well(&attempt, 0, since);
        if well >= self.quorum {
            let text = format!("its lock ended, but {well} nodes were well for half its ttl");
            self.wrong("renewal", hold.client, &text);
        }
    }

    fn forgetful_since(&self, from: Duration) -> u64 {
        let since = self.ledger.data_losses.iter();
        let since = since.filter(|loss| loss.at >= from);
        since.fold(0, |set, loss| set | (1 << loss.server.0))
    }

    /// Returns how many servers hold all keys of a lock, as its owner knows, and have answered the
    /// owner each time since this moment.
    fn holding_well(&mut self, attempt: &AttemptFacts, but: u64, since: Duration) -> usize {
        let now = self.now;
        let owner = attempt.owner.unwrap_or(attempt.client);
        let mut count = 0;
        for number in 0..self.servers.len() {
            let id = self.endpoint_id(owner, super::server::ServerId(number));
            let endpoint = self.endpoint(id);
            // Nor may a call be about to fail.
            let is_slow = endpoint.calls.iter().any(|call| call.is_slow(now));
            let is_well = endpoint.has_answered && endpoint.failed_at < since && !is_slow;
            // A key that was set again behind a doubtful acquire does not count at once.
            let node = &attempt.nodes[number];
            let is_known = node.vote == Vote::Granted && !node.is_doubtful;
            let server = &mut self.servers[number];
            let mut keys = attempt.keys.iter();
            count += usize::from(
                is_well
                    && is_known
                    && but & (1 << number) == 0
                    && keys.all(|key| server.holds(key, &attempt.token, now)),
            );
        }
        count
    }

    /// Records that the guard became a lease.
    pub(crate) fn hand_over(&mut self, holds: &Range<usize>, lease: &Lease) {
        let hold = self.ledger.holds[holds.start].clone();
        self.mark(Mark::HandedOver);
        self.abandon(lease, 0);
        if let Some(attempt) = hold.token.and_then(|token| self.ledger.known(&token)) {
            attempt.leased_until = Some(hold.believed_until);
        }
    }

    /// Records that nobody has to see to the keys that the lease names by these tokens: perhaps nobody
    /// comes with it.
    fn abandon(&mut self, lease: &Lease, first: usize) {
        for token in lease.tokens().skip(first) {
            let token = self.ledger.attempt_of(token).map(|it| it.token);
            if let Some(attempt) = token.and_then(|token| self.ledger.known(&token)) {
                attempt.owner = None;
            }
        }
    }

    /// Records that the lease is given to several clients.
    pub(crate) fn share(&mut self, lease: &Lease) {
        self.mark(Mark::LeaseShared);
        let token = self.ledger.attempt_of(lease.token()).map(|it| it.token);
        if let Some(attempt) = token.and_then(|token| self.ledger.known(&token)) {
            attempt.is_shared = true;
        }
    }

    /// Records that a client is about to resume a lock that was handed over.
    pub(crate) fn begin_resume(&mut self, lease: &Lease) -> Option<AttemptFacts> {
        let token = self.ledger.attempt_of(lease.token())?.token;
        let attempt = self.ledger.known(&token)?;
        let before = attempt.clone();
        attempt.ended_at = None;
        attempt.extends_until = None;
        Some(before)
    }

    /// Judges the result.
    pub(crate) fn judge_resume(
        &mut self,
        client: ClientId,
        before: Option<AttemptFacts>,
        result: Result<&LockGuard, &ResumeError>,
    ) {
        let now = self.now;
        // Not the guard: to show itself it asks for the time, which is under the lock here.
        let ended = result.map(|_| "resumed");
        self.note(|| format!("client {}: resume ended: {ended:?}", client.0));
        let Some(before) = before else {
            return;
        };
        let forgot = self.ledger.forgetful(before.started, now) > 0;
        let Some(attempt) = self.ledger.known(&before.token) else {
            return;
        };
        let was_resumed = attempt.is_resumed;
        let is_gone = attempt.is_released || was_resumed || attempt.is_shared;
        attempt.ended_at = Some(now);
        if matches!(result, Ok(_) | Err(ResumeError::Lost)) {
            attempt.owner = Some(client);
        }
        attempt.is_resumed |= result.is_ok();
        if let Err(ResumeError::Unavailable { lease, .. }) = result {
            self.abandon(lease, 1);
        }
        self.mark(match result {
            Ok(_) => Mark::Resumed,
            Err(ResumeError::Unavailable { .. }) => Mark::ResumeUnavailable,
            Err(ResumeError::ShutDown) => Mark::ShutDown,
            Err(_) => Mark::ResumeLost,
        });
        if result.is_ok() {
            self.judge_shutdown(client, "resumed");
        }
        if forgot || self.ledger.clocks_failed {
            return;
        }
        let is_in_time = before.leased_until.is_some_and(|until| now < until);
        match result {
            Ok(_) if was_resumed => {
                self.wrong("handing", client, "it resumed a lease for the second time");
            }
            Err(ResumeError::Lost) if is_in_time && !is_gone => {
                self.wrong("handing", client, "it came in time, and the lock was gone");
            }
            _ => {}
        }
    }

    /// Records that the client shuts its lock down: it holds nothing from now on.
    pub(crate) fn shut_down(&mut self, client: ClientId) -> Duration {
        let now = self.now;
        self.clients[client.0].shut_at.get_or_insert(now);
        for number in 0..self.ledger.holds.len() {
            if self.ledger.holds[number].client == client {
                self.end_holds(&(number..number + 1));
            }
        }
        now
    }

    /// Judges that a lock was acquired: not after a shutdown.
    pub(crate) fn judge_shutdown(&mut self, client: ClientId, what: &str) {
        let now = self.now;
        if self.clients[client.0].shut_at.is_some_and(|at| at < now) {
            let text = format!("it {what} a lock after its shutdown");
            self.wrong("shutdown", client, &text);
        }
    }

    /// Judges a shutdown that says that all locks are released.
    pub(crate) fn judge_shutdown_end(
        &mut self,
        client: ClientId,
        began: Duration,
        within: Duration,
    ) {
        let now = self.now;
        // Beyond this time it does not wait for the last nodes.
        if now - began >= within.mul_f64(0.9) {
            return;
        }
        for number in 0..self.servers.len() {
            let id = self.endpoint_id(client, super::server::ServerId(number));
            let endpoint = self.endpoint(id);
            // A shutdown waits for the last nodes no longer than for any other command.
            let is_late = endpoint.calls.iter().any(|call| call.is_late(now));
            if !endpoint.has_answered || endpoint.failed_at >= began || is_late {
                continue;
            }
            for (key, fact, _) in self.servers[number].keys(now) {
                let Some(fact) = fact.filter(|fact| !fact.is_ghost && !fact.is_kept) else {
                    continue;
                };
                let Some(attempt) = self.ledger.attempt(&fact.token) else {
                    continue;
                };
                let node = &attempt.nodes[number];
                let is_excused = node.is_owed || node.is_doubtful;
                if attempt.owner == Some(client) && !is_excused {
                    let key = String::from_utf8_lossy(&key);
                    let text = format!("it has shut down, and node {number} has its key {key}");
                    self.wrong("shutdown", client, &text);
                }
            }
        }
    }
}
