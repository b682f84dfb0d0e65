//! The record of a run, by which invariants are judged.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lock_core::{FencingToken, Token};

use super::coverage::{Coverage, Mark};
use super::plan::Plan;
use super::server::ServerId;
use super::tasks::ClientId;

/// The most servers that a simulation can have.
pub(crate) const MAX_SERVERS: usize = 16;

/// What one server answered to one attempt to acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// No answer: it was not asked, or has not answered.
    #[default]
    Nothing,
    /// It granted the lock.
    Granted,
    /// It refused the lock.
    Refused,
    /// The call failed.
    Failed,
}

/// What happened between one attempt and one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeFacts {
    pub(crate) vote: Vote,
    pub(crate) voted_at: Duration,
    pub(crate) asked: u16,
    pub(crate) releases: u16,
    pub(crate) is_owed: bool,
    pub(crate) is_late: bool,
    /// An acquire failed, and may set the key later, behind all releases that the client knows of.
    pub(crate) is_doubtful: bool,
    pub(crate) extends: u16,
}

/// One attempt to acquire, known by its token.
#[derive(Clone, Debug)]
pub(crate) struct AttemptFacts {
    pub(crate) client: ClientId,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) token: Token,
    /// The true moment of its first command.
    pub(crate) started: Duration,
    pub(crate) nodes: [NodeFacts; MAX_SERVERS],
    /// The client that has to see to it that no key is left; `None` while the lock is under way as
    /// a lease, or was forgotten.
    pub(crate) owner: Option<ClientId>,
    /// When its guard ended: released, dropped, or made a lease.
    pub(crate) ended_at: Option<Duration>,
    /// After this moment it is not extended automatically; `None` if it never is.
    pub(crate) extends_until: Option<Duration>,
    /// The end of its validity when it became a lease.
    pub(crate) leased_until: Option<Duration>,
    /// A quorum of nodes has confirmed its release.
    pub(crate) is_released: bool,
    /// A client has resumed its lease.
    pub(crate) is_resumed: bool,
    /// Several clients have its lease.
    pub(crate) is_shared: bool,
}

impl AttemptFacts {
    /// Returns the key that stands for all keys.
    pub(crate) fn key(&self) -> &[u8] {
        self.keys.first().map_or(&[], |key| key)
    }
}

/// A lock that a client believes to hold.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The client.
    pub client: ClientId,
    /// The lock's key.
    pub key: Vec<u8>,
    /// The owner value, unless it is a lock of another kind.
    pub token: Option<Token>,
    /// The true moment at which the attempt that won sent its first command.
    pub asked_at: Duration,
    /// The true moment at which the guard was handed out.
    pub acquired_at: Duration,
    /// The true moment up to which the holder believes in it.
    pub believed_until: Duration,
    /// The true moment at which it was given back, if it was.
    pub ended_at: Option<Duration>,
}

impl Hold {
    /// Returns the true moment at which the belief ended.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.ended_at
            .map_or(self.believed_until, |ended| ended.min(self.believed_until))
    }
}

/// A lock that was acquired with a fencing token.
#[derive(Clone, Debug)]
pub(crate) struct FenceFacts {
    pub(crate) client: ClientId,
    pub(crate) key: Vec<u8>,
    pub(crate) number: FencingToken,
    pub(crate) attempt: Token,
    /// The number of the belief.
    pub(crate) hold: usize,
    pub(crate) asked_at: Duration,
    pub(crate) acquired_at: Duration,
}

/// A server lost keys, or ended them early.
#[derive(Clone, Copy, Debug)]
pub struct DataLoss {
    /// The true moment.
    pub at: Duration,
    /// The server.
    pub server: ServerId,
    /// A restart guard keeps it from granting locks until those that it forgot have ended.
    pub is_guarded: bool,
}

/// The result of a call to acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Acquired,
    /// With the answers of the nodes by its error; empty if there was no error.
    Contended(Vec<Vote>),
    Unavailable(Vec<Vote>),
    TooSlow,
    Cancelled,
    ShutDown,
    Other,
}

/// A call to acquire.
#[derive(Clone, Debug)]
pub(crate) struct CallFacts {
    pub(crate) client: ClientId,
    /// Sorted by their bytes.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    pub(crate) result: CallResult,
}

/// The result of a tick for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickResult {
    Ran,
    Claimed,
    Late,
    Unavailable,
}

/// A claim of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickFacts {
    pub(crate) tick: u64,
    pub(crate) client: ClientId,
    pub(crate) result: TickResult,
    pub(crate) ended: Duration,
}

/// A key that should be gone.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    pub(crate) server: ServerId,
    pub(crate) key: Vec<u8>,
    pub(crate) token: Option<Token>,
    pub(crate) left: Duration,
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What was observed.
    pub text: String,
}

/// All that is remembered of a run. Times are true moments since the run began.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Ledger {
    pub(crate) attempts: Vec<AttemptFacts>,
    by_token: HashMap<Token, usize>,
    pub(crate) calls: Vec<CallFacts>,
    pub(crate) ticks: Vec<TickFacts>,
    pub(crate) leftovers: Vec<Leftover>,
    /// The tokens of locks that may outlive their release.
    pub(crate) kept: HashSet<Token>,
    /// Ticks after the end of all faults, in milliseconds since the epoch.
    pub(crate) quiet_ticks: Vec<u64>,
    pub(crate) fences: Vec<FenceFacts>,
    /// The writes that registers have taken, in order, by the numbers of their fences.
    pub(crate) writes: Vec<usize>,
    /// The attempts that a server granted with a number not above all that it had shown before.
    pub(crate) went_back: Vec<(Token, ServerId)>,
    pub(crate) peak_tasks: usize,
    pub(crate) peak_in_flight: usize,
    /// All beliefs.
    pub holds: Vec<Hold>,
    /// All losses of data.
    pub data_losses: Vec<DataLoss>,
    /// Violations that were noticed as they happened.
    pub violations: Vec<Violation>,
    /// What happened, and how often.
    pub coverage: Coverage,
    /// Whether a clock left its bounds, so that nothing can be promised.
    pub clocks_failed: bool,
}

impl Ledger {
    pub(crate) fn mark(&mut self, mark: Mark) {
        self.coverage.add(mark);
    }

    pub(crate) fn violation(&mut self, invariant: &'static str, text: String) {
        self.violations.push(Violation { invariant, text });
    }

    pub(crate) fn attempt(&self, token: &Token) -> Option<&AttemptFacts> {
        self.attempts.get(*self.by_token.get(token)?)
    }

    /// Returns the attempt whose token has this text: mostly one of the last.
    pub(crate) fn attempt_of(&self, token: &str) -> Option<&AttemptFacts> {
        let is_it = |attempt: &&AttemptFacts| attempt.token.as_str() == token;
        self.attempts.iter().rev().find(is_it)
    }

    /// Returns the attempt of a guard that was handed out.
    pub(crate) fn known(&mut self, token: &Token) -> Option<&mut AttemptFacts> {
        self.attempts.get_mut(*self.by_token.get(token)?)
    }

    /// Returns the attempt with a token, which may be new: a command has just named it.
    pub(crate) fn attempt_mut(
        &mut self,
        client: ClientId,
        keys: &[&[u8]],
        token: Token,
        now: Duration,
    ) -> &mut AttemptFacts {
        let next = self.attempts.len();
        let index = *self.by_token.entry(token).or_insert(next);
        if index == next {
            self.attempts.push(AttemptFacts {
                client,
                keys: keys.iter().map(|key| key.to_vec()).collect(),
                token,
                started: now,
                nodes: [NodeFacts::default(); MAX_SERVERS],
                owner: Some(client),
                ended_at: None,
                extends_until: None,
                leased_until: None,
                is_released: false,
                is_resumed: false,
                is_shared: false,
            });
        }
        &mut self.attempts[index]
    }

    /// Returns whether clocks stayed within their bounds, and in any two ttls no more servers
    /// forgot keys than exclusion survives.
    #[must_use]
    pub fn is_within_budget(&self, plan: &Plan) -> bool {
        let is_fine = |loss: &DataLoss| {
            let to = loss.at.saturating_add(plan.ttl * 2);
            self.unguarded(loss.at, to) <= plan.survives_forgetful()
        };
        !self.clocks_failed && self.data_losses.iter().all(is_fine)
    }

    /// Returns how many servers forgot keys in this span of true time.
    #[must_use]
    pub fn forgetful(&self, from: Duration, to: Duration) -> usize {
        self.losing(from, to, |_| true)
    }

    /// The same of those that no restart guard kept from granting locks afterwards.
    #[must_use]
    pub fn unguarded(&self, from: Duration, to: Duration) -> usize {
        self.losing(from, to, |loss| !loss.is_guarded)
    }

    fn losing(&self, from: Duration, to: Duration, which: fn(&DataLoss) -> bool) -> usize {
        let during = |loss: &&DataLoss| (from..=to).contains(&loss.at) && which(loss);
        let servers = self.data_losses.iter().filter(during);
        let set = servers.fold(0_u64, |set, loss| set | (1 << loss.server.0));
        set.count_ones() as usize
    }
}
