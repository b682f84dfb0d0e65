//! What is known of keys beside what their servers know.

use std::time::Duration;

use lock_core::Token;
use lock_core::node::{Operation, Reply};

use super::server::Server;

/// What is known of a key beside what the server knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyFact {
    pub(crate) token: Token,
    /// The true moment of the last command that set or extended it, and the lifetime it gave.
    pub(crate) refreshed_at: Duration,
    pub(crate) ttl: Duration,
    /// Nobody can be expected to know that it is there: a stray request set it, or a server that
    /// lost its last second brought it back.
    pub(crate) is_ghost: bool,
    /// A release keeps it, as was asked.
    pub(crate) is_kept: bool,
}

/// What running a command did to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Set,
    Extended,
    Removed,
    Kept,
}

impl Server {
    /// Keeps account of what a command did to keys, of which those were `free` before.
    pub(super) fn note(
        &mut self,
        operation: &Operation,
        reply: &Reply,
        free: &[&[u8]],
        now: Duration,
    ) -> Effect {
        match operation {
            Operation::Acquire { token, ttl, .. }
            | Operation::AcquireOrReport { token, ttl, .. }
            | Operation::AcquireAll { token, ttl, .. } => {
                let granted = matches!(reply, Reply::Bytes(_) | Reply::Int(1));
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
                self.facts.extend(set);
                Effect::Set
            }
            Operation::Extend { entries } => {
                let Reply::Array(codes) = reply else {
                    return Effect::Nothing;
                };
                let mut effect = Effect::Nothing;
                let extended = entries.iter().zip(codes);
                for (entry, _) in extended.filter(|(_, code)| **code == Reply::Int(1)) {
                    let Some(fact) = self.facts.get_mut(&entry.key[..]) else {
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
            Operation::Release { key, keep, .. } if *reply == Reply::Int(1) => {
                self.note_release(key, *keep)
            }
            Operation::ReleaseAll { keys, keep, .. } => {
                let Reply::Array(codes) = reply else {
                    return Effect::Nothing;
                };
                let released = keys.iter().zip(codes);
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

    fn note_release(&mut self, key: &[u8], keep: Duration) -> Effect {
        if keep.is_zero() {
            self.facts.remove(key);
            return Effect::Removed;
        }
        if let Some(fact) = self.facts.get_mut(key) {
            fact.is_kept = true;
        }
        Effect::Kept
    }

    /// What is wrong with the lifetime of a key that a command has just set or extended. A clock
    /// that jumped has moved the ends of keys.
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
