//! The keys of a node, their lifetimes, and what each operation does to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{ExtendEntry, Keys, Operation};
use lock_core::{NodeError, Reply, Token};

/// As in the core: whether a script is to have this bug, for the simulator to notice.
#[cfg(not(lock_mutants))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}
#[cfg(lock_mutants)]
macro_rules! mutant {
    ($name:ident) => {
        lock_core::mutants::is(lock_core::mutants::Mutant::$name)
    };
}

mod counters;
mod guard;

/// How much of a foreign value a refusal reports, as in the acquire script.
const TOLD_BYTES: usize = 128;

/// With fewer keys than this, dead ones are not looked for.
const SWEEP_FROM: usize = 1024;

/// Keys with values and lifetimes.
///
/// Each method takes the instant at which it happens. A key lives for exactly its ttl, and is gone at
/// the last instant. A real server, which counts whole milliseconds, keeps it up to two milliseconds
/// longer.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    sweep_above: usize,
    /// What the server's clock shows beyond the instant at which a method is called.
    epoch: Duration,
    /// How often the server has started anew.
    run: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    expires_at: Option<Duration>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    /// A hash, a list or the like: `GET` answers WRONGTYPE.
    OtherType,
}

impl Value {
    fn is(&self, token: &Token) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes == token.as_bytes())
    }
}

impl Entry {
    fn lives_at(&self, at: Duration) -> bool {
        self.expires_at.is_none_or(|expires_at| at < expires_at)
    }

    /// Returns what `PTTL` answers. A fraction of a millisecond counts as a whole one.
    fn pttl(&self, at: Duration) -> i64 {
        let Some(expires_at) = self.expires_at else {
            return -1;
        };
        let left = expires_at.saturating_sub(at).as_nanos();
        i64::try_from(left.div_ceil(1_000_000)).unwrap_or(i64::MAX)
    }

    /// Returns its holder and its PTTL, as scripts report them.
    fn told(&self, at: Duration) -> Reply {
        let holder = match &self.value {
            Value::Bytes(bytes) => Reply::Bytes(bytes[..bytes.len().min(TOLD_BYTES)].to_vec()),
            Value::OtherType => Reply::Nil,
        };
        Reply::Array(vec![holder, Reply::Int(self.pttl(at))])
    }
}

impl Keyspace {
    pub(crate) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            sweep_above: SWEEP_FROM,
            epoch: Duration::ZERO,
            run: 0,
        }
    }

    /// Loses all keys, as a server that starts anew without its data.
    pub(crate) fn forget(&mut self) {
        self.restart();
        self.entries.clear();
        self.sweep_above = SWEEP_FROM;
    }

    /// The server's clock shows `wall` at this instant.
    pub(crate) fn set_clock(&mut self, wall: Duration, at: Duration) {
        self.epoch = wall.saturating_sub(at);
    }

    /// What `TIME` answers, in microseconds.
    fn time(&self, at: Duration) -> u64 {
        let time = self.epoch.saturating_add(at);
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    /// Carries out an operation, as one indivisible step.
    pub(crate) fn run(&mut self, operation: &Operation, at: Duration) -> Result<Reply, NodeError> {
        if let Operation::Acquire {
            guard: Some(guard), ..
        } = operation
        {
            self.guard(guard, at)?;
        }
        match operation {
            Operation::Acquire {
                keys,
                token,
                ttl,
                fence: Some(fence),
                ..
            } => self.acquire_fenced(keys, token, *ttl, fence, at),
            Operation::Bootstrap { key, quarantine } => {
                Ok(Reply::Int(self.bootstrap(key, *quarantine, at)))
            }
            Operation::Confirm {
                keys,
                token,
                fence,
                granted,
                raised,
            } => {
                let numbers = [*granted, *raised];
                Ok(Reply::Int(self.confirm(keys, token, fence, numbers, at)))
            }
            Operation::Acquire {
                keys, token, ttl, ..
            } => {
                let is_free = self.live(keys.first(), at).is_none();
                let reply = self.acquire(keys.as_slice(), token, at + ttl.as_duration(), at);
                Ok(match operation.script_name() {
                    Some(_) => reply,
                    None if is_free => Reply::ok(),
                    None => Reply::Nil,
                })
            }
            Operation::Extend { entries } => {
                let extended = entries.iter().map(|entry| self.extend(entry, at));
                Ok(Reply::Array(extended.map(Reply::Int).collect()))
            }
            Operation::Exchange {
                keys,
                old,
                new,
                ttl,
            } => {
                let wanted = at + ttl.as_duration();
                let exchange = |key| Reply::Int(self.exchange(key, old, new, wanted, at));
                let keys = keys.as_slice().iter();
                Ok(Reply::Array(keys.map(exchange).collect()))
            }
            Operation::Release { keys, token, keep } => {
                let mut release = |key: &Arc<[u8]>| Reply::Int(self.release(key, token, *keep, at));
                Ok(match keys {
                    Keys::One(key) => release(key),
                    Keys::Several(keys) => Reply::Array(keys.iter().map(release).collect()),
                })
            }
            Operation::Inspect { key } => Ok(match self.live(key, at) {
                Some(entry) => entry.told(at),
                None => Reply::Int(0),
            }),
            Operation::Remove { key } => Ok(Reply::Int(self.remove_lock(key, at))),
            // All in one part, as a server may answer too.
            Operation::Scan { prefix, .. } => {
                let live = self.entries.iter().filter(|(_, entry)| entry.lives_at(at));
                let strings = live.filter(|(_, entry)| !matches!(entry.value, Value::OtherType));
                let keys = strings
                    .map(|(key, _)| key)
                    .filter(|key| key.starts_with(prefix));
                let keys = keys.map(|key| Reply::Bytes(key.clone())).collect();
                Ok(Reply::Array(vec![
                    Reply::Bytes(b"0".to_vec()),
                    Reply::Array(keys),
                ]))
            }
            Operation::Describe => Ok(self.describe(at)),
            other => Err(NodeError::server(format!(
                "ERR unknown command '{}'",
                other.name()
            ))),
        }
    }

    /// Returns what a server says that keeps all in memory.
    fn describe(&self, at: Duration) -> Reply {
        let time = at.saturating_add(self.epoch);
        let [secs, micros] = [time.as_secs(), u64::from(time.subsec_micros())];
        let [secs, micros] = [secs, micros].map(|part| Reply::Bytes(part.to_string().into_bytes()));
        let run = self.run_id();
        let info = format!(
            "run_id:{run}\nrole:master\naof_enabled:0\nmaxmemory:0\nmaxmemory_policy:noeviction"
        );
        Reply::Array(vec![secs, micros, Reply::Bytes(info.into())])
    }

    fn acquire(
        &mut self,
        keys: &[Arc<[u8]>],
        token: &Token,
        expires_at: Duration,
        at: Duration,
    ) -> Reply {
        let checked = match mutant!(SeveralPartlyChecked) {
            true => &keys[..1],
            false => keys,
        };
        for key in checked {
            if let Some(entry) = self.live(key, at).filter(|entry| !entry.value.is(token)) {
                return entry.told(at);
            }
        }
        for key in keys {
            // With that bug, the others are taken whatever they hold.
            if checked.len() < keys.len() || self.live(key, at).is_none() {
                self.set_token(key, token, expires_at, at);
            }
        }
        Reply::Int(1)
    }

    fn extend(&mut self, entry: &ExtendEntry, at: Duration) -> i64 {
        let wanted = at + entry.ttl.as_duration();
        if mutant!(ExtendCreates) && self.live(&entry.key, at).is_none() {
            self.set_token(&entry.key, &entry.token, wanted, at);
        }
        let Some(held) = self.live(&entry.key, at) else {
            return 0;
        };
        if !held.value.is(&entry.token) && !mutant!(ExtendWithoutCompare) {
            return -1;
        }
        if mutant!(ExtendShortens) {
            held.expires_at = Some(wanted);
        }
        // A key without expiry has the PTTL -1, which is less than any ttl: it gets one.
        if held.expires_at.is_none_or(|present| present < wanted) {
            held.expires_at = Some(wanted);
        }
        1
    }

    fn exchange(
        &mut self,
        key: &Arc<[u8]>,
        old: &[Token],
        new: &Token,
        wanted: Duration,
        at: Duration,
    ) -> i64 {
        let Some(held) = self.live(key, at) else {
            return 0;
        };
        let is_ours = held.value.is(new) || old.iter().any(|old| held.value.is(old));
        if !is_ours && !mutant!(LeaseResumedTwice) {
            return -1;
        }
        let expires_at = held
            .expires_at
            .map_or(wanted, |present| present.max(wanted));
        self.set_token(key, new, expires_at, at);
        1
    }

    fn release(&mut self, key: &[u8], token: &Token, keep: Duration, at: Duration) -> i64 {
        let Some(held) = self.live(key, at) else {
            return 0;
        };
        if !held.value.is(token) && !mutant!(PlainDel) {
            return -1;
        }
        if keep.is_zero() {
            self.entries.remove(key);
            return 1;
        }
        let until = at.saturating_add(whole_millis(keep));
        if held.expires_at.is_none_or(|present| present > until) {
            held.expires_at = Some(until);
        }
        1
    }

    fn remove_lock(&mut self, key: &[u8], at: Duration) -> i64 {
        match self.live(key, at).map(|entry| &entry.value) {
            None => 0,
            Some(Value::OtherType) => -1,
            Some(Value::Bytes(_)) => {
                self.entries.remove(key);
                1
            }
        }
    }

    /// Returns the value of the key, if it is bytes.
    pub(crate) fn get(&mut self, key: &[u8], at: Duration) -> Option<Vec<u8>> {
        match &self.live(key, at)?.value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::OtherType => None,
        }
    }

    /// Returns what `PTTL` answers: -2 without a key, -1 without expiry.
    pub(crate) fn pttl(&mut self, key: &[u8], at: Duration) -> i64 {
        self.live(key, at).map_or(-2, |entry| entry.pttl(at))
    }

    /// Returns the keys, in the order of their bytes.
    pub(crate) fn keys(&self, at: Duration) -> Vec<Vec<u8>> {
        let live = self.entries.iter().filter(|(_, entry)| entry.lives_at(at));
        live.map(|(key, _)| key.clone()).collect()
    }

    /// Sets a key to a foreign value, without expiry.
    pub(crate) fn set(&mut self, key: &[u8], value: Value, at: Duration) {
        self.insert(key, value, None, at);
    }

    /// Lets an existing key live for this much longer.
    pub(crate) fn expire(&mut self, key: &[u8], ttl: Duration, at: Duration) -> bool {
        let Some(entry) = self.live(key, at) else {
            return false;
        };
        entry.expires_at = Some(at.saturating_add(ttl));
        true
    }

    /// Deletes a key. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8], at: Duration) -> bool {
        let there = self.live(key, at).is_some();
        self.entries.remove(key);
        there
    }

    fn set_token(&mut self, key: &[u8], token: &Token, expires_at: Duration, at: Duration) {
        let value = Value::Bytes(token.as_bytes().to_vec());
        self.insert(key, value, Some(expires_at), at);
    }

    fn insert(&mut self, key: &[u8], value: Value, expires_at: Option<Duration>, at: Duration) {
        self.entries
            .insert(key.to_vec(), Entry { value, expires_at });
        // Keys that are never asked for again would stay for ever. Looking at all of them each time
        // that their number has doubled costs a constant amount per key.
        if self.entries.len() > self.sweep_above {
            self.entries.retain(|_, entry| entry.lives_at(at));
            self.sweep_above = SWEEP_FROM.max(2 * self.entries.len());
        }
    }

    /// Returns the entry of a key, after a dead one has been cleared away.
    fn live(&mut self, key: &[u8], at: Duration) -> Option<&mut Entry> {
        if self.entries.get(key).is_some_and(|e| !e.lives_at(at)) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }
}

/// Rounds up, as the command does on its way to a server.
fn whole_millis(duration: Duration) -> Duration {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_keys_that_nobody_asks_for_do_not_pile_up() {
        let mut keyspace = Keyspace::new();
        for second in 0..100_000_u64 {
            let at = Duration::from_secs(second);
            let key = second.to_be_bytes();
            keyspace.set(&key, Value::OtherType, at);
            assert!(keyspace.expire(&key, Duration::from_secs(10), at));
        }
        assert!(keyspace.entries.len() <= 2 * SWEEP_FROM);
        assert_eq!(keyspace.keys(Duration::from_secs(100_000)).len(), 9);
    }
}
