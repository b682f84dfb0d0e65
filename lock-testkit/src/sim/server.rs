//! A simulated server: a keyspace, a clock, and what can go wrong with both.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::Token;
use lock_core::node::{NodeError, Operation, Reply};

use super::clock::Clock;
use super::facts::{Effect, KeyFact, KeyFacts};
use super::fences::Counted;
use super::operation::keys_of;
use super::server_fault::ServerFault;
use crate::memory::keyspace::Keyspace;

/// The number of a server of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub(crate) usize);

impl ServerId {
    /// Returns the server with this number.
    #[must_use]
    pub fn nth(number: usize) -> Self {
        Self(number)
    }

    /// Returns the number, which counts from 0 in the order in which servers were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// How often an append-only file reaches the disk.
const FSYNC_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) clock: Clock,
    pub(crate) keyspace: Keyspace,
    pub(crate) facts: KeyFacts,
    pub(crate) counted: Counted,
    pub(crate) is_up: bool,
    /// Its clock was set forward since it forgot all.
    pub(crate) has_leapt: bool,
    /// Up to this moment it takes requests and runs none.
    pub(crate) stalled_until: Duration,
    fault: Option<(ServerFault, Duration)>,
    /// The names of the scripts that it knows.
    scripts: BTreeSet<&'static str>,
    synced: (Keyspace, KeyFacts),
    synced_at: Duration,
    touched_at: Duration,
    /// Whether a crash may cost the last second, so that snapshots are kept.
    keeps_snapshots: bool,
    /// It is a node of a cluster, which refuses a command for several keys.
    pub(crate) wants_one_slot: bool,
}

impl Server {
    pub(crate) fn new(clock: Clock, keeps_snapshots: bool) -> Self {
        Self {
            clock,
            keyspace: Keyspace::new(),
            facts: KeyFacts::default(),
            counted: Counted::default(),
            is_up: true,
            has_leapt: false,
            stalled_until: Duration::ZERO,
            fault: None,
            scripts: BTreeSet::new(),
            synced: (Keyspace::new(), KeyFacts::default()),
            synced_at: Duration::ZERO,
            touched_at: Duration::ZERO,
            keeps_snapshots,
            wants_one_slot: false,
        }
    }

    /// Runs a command at a true moment.
    pub(crate) fn run(
        &mut self,
        operation: &Operation,
        with_source: bool,
        now: Duration,
    ) -> (Result<Reply, NodeError>, Effect) {
        let at = self.clock.at(now);
        if let Some(fault) = self.fault(now)
            && fault.refuses(&mut self.keyspace, operation, at)
        {
            return (Err(fault.error()), Effect::Nothing);
        }
        if self.wants_one_slot && spans_slots(operation) {
            let error = "CROSSSLOT Keys in request don't hash to the same slot";
            return (Err(NodeError::server(error)), Effect::Nothing);
        }
        if let Some(script) = operation.script_name() {
            if with_source {
                self.scripts.insert(script);
            } else if !self.scripts.contains(script) {
                let error = NodeError::server("NOSCRIPT No matching script. Please use EVAL.");
                return (Err(error), Effect::Nothing);
            }
        }
        if self.keeps_snapshots {
            if now >= self.synced_at + FSYNC_EVERY {
                self.synced = (self.keyspace.clone(), self.facts.clone());
                self.synced_at = now;
            }
            self.touched_at = now;
        }
        let keys = keys_of(operation);
        let mut free = keys.clone();
        free.retain(|key| self.keyspace.get(key, at).is_none());
        let reply = self.keyspace.run(operation, at);
        let effect = match &reply {
            Ok(reply) => self.facts.note(operation, reply, &free, now),
            Err(_) => Effect::Nothing,
        };
        (reply, effect)
    }

    fn fault(&self, now: Duration) -> Option<ServerFault> {
        let (fault, until) = self.fault?;
        (now < until).then_some(fault)
    }

    pub(crate) fn set_fault(&mut self, fault: ServerFault, until: Duration) {
        self.fault = Some((fault, until));
    }

    pub(crate) fn clear_fault(&mut self) {
        self.fault = None;
    }

    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// It has no locks to forget yet.
    pub(crate) fn bootstrap(&mut self) {
        let key = std::sync::Arc::from(GUARD);
        let quarantine = lock_core::Ttl::MIN;
        let bootstrap = Operation::Bootstrap { key, quarantine };
        let at = self.clock.at(Duration::ZERO);
        // An operation that cannot fail.
        self.keyspace.run(&bootstrap, at).ok();
        self.synced.0 = self.keyspace.clone();
    }

    /// Its next run begins, with the keys that it has.
    pub(crate) fn restart(&mut self) {
        self.keyspace.restart();
    }

    /// Loses all keys.
    pub(crate) fn forget_keys(&mut self) {
        self.keyspace.forget();
        self.has_leapt = false;
        self.facts = KeyFacts::default();
        self.synced = (self.keyspace.clone(), KeyFacts::default());
    }

    /// Returns the counters of fencing tokens that are there.
    pub(crate) fn counters(&self, now: Duration) -> Vec<Vec<u8>> {
        let mut keys = self.keyspace.keys(self.clock.at(now));
        keys.retain(|key| is_counter(key));
        keys
    }

    /// Loses one key.
    pub(crate) fn evict(&mut self, key: &[u8], now: Duration) {
        let at = self.clock.at(now);
        self.keyspace.remove(key, at);
        self.facts.remove(key);
    }

    /// Loses what happened since the last sync. Keys that were released meanwhile come back, and no
    /// client can know of them.
    pub(crate) fn roll_back(&mut self, now: Duration) {
        if now >= self.touched_at + FSYNC_EVERY {
            return;
        }
        let mut old = self.synced.clone();
        old.0.follow(&self.keyspace);
        (self.keyspace, self.facts) = old;
        self.facts.excuse_all();
    }

    /// Returns whether the key holds the token.
    pub(crate) fn holds(&mut self, key: &[u8], token: &Token, now: Duration) -> bool {
        let at = self.clock.at(now);
        self.keyspace.get(key, at).as_deref() == Some(token.as_bytes())
    }

    /// Returns each key that is there, what is known of it, and what is left of its life in true
    /// time.
    pub(crate) fn keys(&mut self, now: Duration) -> Vec<(Vec<u8>, Option<KeyFact>, Duration)> {
        let at = self.clock.at(now);
        let keys = self.keyspace.keys(at);
        keys.into_iter()
            .filter(|key| !is_counter(key) && key != GUARD)
            .map(|key| {
                let pttl = u64::try_from(self.keyspace.pttl(&key, at)).unwrap_or(u64::MAX >> 24);
                let ends = self.clock.true_at(at + Duration::from_millis(pttl));
                let fact = self.facts.get(&key).copied();
                (key, fact, ends.saturating_sub(now))
            })
            .collect()
    }

    /// Returns what is wrong with the lifetime of a key that a command has just set or extended, if
    /// anything is. A clock that jumped has moved the ends of keys, so that there is nothing to
    /// judge.
    pub(crate) fn outlived(&mut self, key: &[u8], now: Duration) -> Option<String> {
        if self.clock.has_jumped() {
            return None;
        }
        let ttl = self.facts.get(key)?.ttl.as_millis();
        let left = self.keyspace.pttl(key, self.clock.at(now));
        if left == -2 {
            // One of several keys that it does not have.
            return None;
        }
        // What is known of the ttl is counted in true time, what is left by the server's clock.
        let allowed = ttl + ttl / 50 + 2;
        let is_fine = u128::try_from(left).is_ok_and(|left| left <= allowed);
        (!is_fine).then(|| {
            let key = String::from_utf8_lossy(key);
            format!("{key} has a PTTL of {left} ms, and its ttl is {ttl} ms")
        })
    }
}

/// The key of the restart guard.
const GUARD: &[u8] = b":restart-guard";

fn is_counter(key: &[u8]) -> bool {
    key.ends_with(b":fencing-counter")
}

/// Returns whether a cluster refuses the operation: no two keys of the workloads share a slot.
fn spans_slots(operation: &Operation) -> bool {
    let keys = keys_of(operation);
    keys.iter().any(|key| *key != keys[0])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lock_core::Ttl;
    use lock_core::node::Keys;

    use super::*;
    use crate::sim::Sim;

    #[test]
    fn a_key_without_an_end_or_with_one_too_late_is_noticed() {
        let sim = Sim::new(1);
        let client = sim.add_client();
        let token = Token::generate(&*sim.runtime(client));
        let mut server = Server::new(Clock::new(Duration::ZERO, 0), false);
        let ttl = Ttl::MIN;
        let acquire = Operation::Acquire {
            keys: Keys::One(Arc::from(*b"k")),
            token,
            ttl,
            report_holder: false,
            fence: None,
            guard: None,
        };
        let (reply, effect) = server.run(&acquire, false, Duration::ZERO);
        assert!(reply.is_ok() && effect == Effect::Set);
        assert_eq!(server.outlived(b"k", Duration::ZERO), None);

        let longer = ttl.as_duration() * 4;
        server.keyspace.expire(b"k", longer, Duration::ZERO);
        assert!(server.outlived(b"k", Duration::ZERO).is_some());

        let value = crate::memory::keyspace::Value::Bytes(token.as_bytes().to_vec());
        server.keyspace.set(b"k", value, Duration::ZERO);
        assert!(server.outlived(b"k", Duration::ZERO).is_some());
    }
}
