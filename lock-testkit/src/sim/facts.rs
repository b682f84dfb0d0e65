//! What the simulator knows of keys beside what their servers know.

use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use lock_core::Token;
use lock_core::node::{Operation, Reply};

/// What the simulator knows of a key beside what the server knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyFact {
    pub(crate) token: Token,
    /// The true moment of the last command that set or extended it, and the lifetime it gave.
    pub(crate) refreshed_at: Duration,
    pub(crate) ttl: Duration,
    /// No client can know that the key is there: a stray request set it, say, or a server that lost
    /// its last second brought it back.
    pub(crate) is_ghost: bool,
    /// Its lock was released, and the key stays for a while as was asked.
    pub(crate) is_kept: bool,
}

/// What a command did to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Set,
    Extended,
    Removed,
    Kept,
}

/// The facts of all keys of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyFacts(BTreeMap<Vec<u8>, KeyFact>);

impl KeyFacts {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&KeyFact> {
        self.0.get(key)
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    /// Records that no client can know of the lock's key. Returns whether there is such a key.
    pub(crate) fn excuse(&mut self, key: &[u8], token: &Token) -> bool {
        let Some(fact) = self.0.get_mut(key).filter(|fact| fact.token == *token) else {
            return false;
        };
        fact.is_ghost = true;
        true
    }

    /// Records that no client can know which of the keys are there.
    pub(crate) fn excuse_all(&mut self) {
        for fact in self.0.values_mut() {
            fact.is_ghost = true;
        }
    }

    /// Records what a command did to its keys, of which `free` were not there before.
    pub(crate) fn note(
        &mut self,
        operation: &Operation,
        reply: &Reply,
        free: &[&[u8]],
        now: Duration,
    ) -> Effect {
        match operation {
            Operation::Acquire { token, ttl, .. } => {
                let granted = matches!(reply, Reply::Bytes(_) | Reply::Int(_));
                if !granted || free.is_empty() {
                    return Effect::Nothing;
                }
                let fact = KeyFact {
                    token: *token,
                    refreshed_at: now,
                    ttl: ttl.as_duration(),
                    is_ghost: false,
                    is_kept: false,
                };
                let set = free.iter().map(|key| (key.to_vec(), fact));
                self.0.extend(set);
                Effect::Set
            }
            Operation::Extend { entries } => {
                let Reply::Array(codes) = reply else {
                    return Effect::Nothing;
                };
                let mut effect = Effect::Nothing;
                let extended = entries.iter().zip(codes);
                for (entry, _) in extended.filter(|(_, code)| **code == Reply::Int(1)) {
                    let Some(fact) = self.0.get_mut(&entry.key[..]) else {
                        continue;
                    };
                    effect = Effect::Extended;
                    let ends = fact.refreshed_at + fact.ttl;
                    if ends < now + entry.ttl.as_duration() {
                        fact.refreshed_at = now;
                        fact.ttl = entry.ttl.as_duration();
                    }
                }
                effect
            }
            Operation::Exchange { keys, new, ttl, .. } => {
                let Reply::Array(codes) = reply else {
                    return Effect::Nothing;
                };
                let exchanged = keys.as_slice().iter().zip(codes);
                let exchanged = exchanged.filter(|(_, code)| **code == Reply::Int(1));
                let effects =
                    exchanged.map(|(key, _)| self.note_exchange(key, *new, ttl.as_duration(), now));
                effects.last().unwrap_or(Effect::Nothing)
            }
            Operation::Release { keys, keep, .. } => {
                let codes = match reply {
                    Reply::Array(codes) => &codes[..],
                    code => slice::from_ref(code),
                };
                let released = keys.as_slice().iter().zip(codes);
                let released = released.filter(|(_, code)| **code == Reply::Int(1));
                let effects = released.map(|(key, _)| self.note_release(key, *keep));
                effects.last().unwrap_or(Effect::Nothing)
            }
            Operation::Remove { key } if *reply == Reply::Int(1) => {
                self.note_release(key, Duration::ZERO)
            }
            _ => Effect::Nothing,
        }
    }

    fn note_exchange(&mut self, key: &[u8], new: Token, ttl: Duration, now: Duration) -> Effect {
        let Some(fact) = self.0.get_mut(key) else {
            return Effect::Nothing;
        };
        // A ghost remains one: the exchange may have come as late as the command that set it.
        let is_new = fact.token != new;
        fact.token = new;
        if fact.refreshed_at + fact.ttl < now + ttl {
            (fact.refreshed_at, fact.ttl) = (now, ttl);
        }
        match is_new {
            true => Effect::Set,
            false => Effect::Extended,
        }
    }

    fn note_release(&mut self, key: &[u8], keep: Duration) -> Effect {
        if keep.is_zero() {
            self.0.remove(key);
            return Effect::Removed;
        }
        if let Some(fact) = self.0.get_mut(key) {
            fact.is_kept = true;
        }
        Effect::Kept
    }
}
