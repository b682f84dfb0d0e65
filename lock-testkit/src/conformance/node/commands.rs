//! The commands that checks send.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{ExtendEntry, Fence, Guard, Keys, Operation};
use lock_core::{Command, FencingToken, Reply, Token, Ttl};

/// The lifetime of keys that shall not expire during a check.
pub(crate) const TTL: Duration = Duration::from_secs(600);

fn bytes(key: impl AsRef<[u8]>) -> Arc<[u8]> {
    Arc::from(key.as_ref())
}

fn one(key: impl AsRef<[u8]>) -> Keys {
    Keys::One(bytes(key))
}

/// Returns several keys in this order, be there fewer than two of them.
fn several<K: AsRef<[u8]>>(keys: &[K]) -> Keys {
    Keys::Several(keys.iter().map(bytes).collect())
}

fn acquire_keys(keys: Keys, token: Token, ttl: Duration, report_holder: bool) -> Command {
    Command::from(Operation::Acquire {
        keys,
        token,
        ttl: ttl_of(ttl),
        report_holder,
        fence: None,
        guard: None,
    })
}

fn release_keys(keys: Keys, token: Token, keep: Duration) -> Command {
    Command::from(Operation::Release { keys, token, keep })
}

/// Returns the nearest legal ttl.
fn ttl_of(ttl: Duration) -> Ttl {
    let least = if ttl > Ttl::MAX.as_duration() {
        Ttl::MAX
    } else {
        Ttl::MIN
    };
    Ttl::new(ttl).unwrap_or(least)
}

pub(crate) fn acquire(key: impl AsRef<[u8]>, token: Token) -> Command {
    acquire_for(key, token, TTL)
}

pub(crate) fn acquire_for(key: impl AsRef<[u8]>, token: Token, ttl: Duration) -> Command {
    acquire_keys(one(key), token, ttl, false)
}

pub(crate) fn acquire_or_report(key: impl AsRef<[u8]>, token: Token) -> Command {
    acquire_or_report_for(key, token, TTL)
}

pub(crate) fn acquire_or_report_for(key: impl AsRef<[u8]>, token: Token, ttl: Duration) -> Command {
    acquire_keys(one(key), token, ttl, true)
}

pub(crate) fn extend(key: impl AsRef<[u8]>, token: Token, ttl: Duration) -> Command {
    extend_all([(key.as_ref(), token, ttl)])
}

pub(crate) fn extend_all<'a>(
    entries: impl IntoIterator<Item = (&'a [u8], Token, Duration)>,
) -> Command {
    let entry = |(key, token, ttl): (&[u8], Token, Duration)| ExtendEntry {
        key: bytes(key),
        token,
        ttl: ttl_of(ttl),
    };
    Command::from(Operation::Extend {
        entries: entries.into_iter().map(entry).collect(),
    })
}

pub(crate) fn exchange(key: impl AsRef<[u8]>, old: &[Token], new: Token, ttl: Duration) -> Command {
    exchange_keys(one(key), old, new, ttl)
}

pub(crate) fn exchange_all<K: AsRef<[u8]>>(
    keys: &[K],
    old: &[Token],
    new: Token,
    ttl: Duration,
) -> Command {
    exchange_keys(several(keys), old, new, ttl)
}

fn exchange_keys(keys: Keys, old: &[Token], new: Token, ttl: Duration) -> Command {
    Command::from(Operation::Exchange {
        keys,
        old: old.into(),
        new,
        ttl: ttl_of(ttl),
    })
}

pub(crate) fn release(key: impl AsRef<[u8]>, token: Token) -> Command {
    release_keeping(key, token, Duration::ZERO)
}

pub(crate) fn release_keeping(key: impl AsRef<[u8]>, token: Token, keep: Duration) -> Command {
    release_keys(one(key), token, keep)
}

/// The answer to an extension of one key.
pub(crate) fn extended(answer: i64) -> Reply {
    Reply::Array(vec![Reply::Int(answer)])
}

pub(crate) fn acquire_all<K: AsRef<[u8]>>(keys: &[K], token: Token) -> Command {
    acquire_all_for(keys, token, TTL)
}

pub(crate) fn acquire_all_for<K: AsRef<[u8]>>(keys: &[K], token: Token, ttl: Duration) -> Command {
    acquire_keys(several(keys), token, ttl, true)
}

/// How long counters live.
pub(crate) const RETENTION: Duration = Duration::from_secs(86_400);

/// The key of a counter.
pub(crate) fn counter_of(key: &str) -> String {
    format!("{{{key}}}:counter")
}

fn fence(keys: &[&str], above: u64) -> Fence {
    Fence {
        counters: keys.iter().map(|key| bytes(counter_of(key))).collect(),
        above: FencingToken::new(above),
        retention: ttl_of(RETENTION),
    }
}

/// A single key or several ones.
fn keys_of(keys: &[&str]) -> Keys {
    match keys {
        [key] => one(key),
        keys => several(keys),
    }
}

pub(crate) fn acquire_fenced(keys: &[&str], token: Token, above: u64) -> Command {
    Command::from(Operation::Acquire {
        keys: keys_of(keys),
        token,
        ttl: ttl_of(TTL),
        report_holder: true,
        fence: Some(fence(keys, above)),
        guard: None,
    })
}

/// The same acquire behind a restart guard.
pub(crate) fn guarded(acquire: &Command, key: &str, quarantine: Duration) -> Command {
    let mut operation = acquire.operation().clone();
    if let Operation::Acquire { guard, .. } = &mut operation {
        *guard = Some(Guard {
            key: bytes(key),
            quarantine: ttl_of(quarantine),
        });
    }
    Command::from(operation)
}

pub(crate) fn bootstrap(key: &str, quarantine: Duration) -> Command {
    Command::from(Operation::Bootstrap {
        key: bytes(key),
        quarantine: ttl_of(quarantine),
    })
}

pub(crate) fn confirm(keys: &[&str], token: Token, granted: u64, raised: u64) -> Command {
    Command::from(Operation::Confirm {
        keys: keys_of(keys),
        token,
        fence: fence(keys, 0),
        granted: FencingToken::new(granted),
        raised: FencingToken::new(raised),
    })
}

pub(crate) fn release_all<K: AsRef<[u8]>>(keys: &[K], token: Token) -> Command {
    release_all_keeping(keys, token, Duration::ZERO)
}

pub(crate) fn release_all_keeping<K: AsRef<[u8]>>(
    keys: &[K],
    token: Token,
    keep: Duration,
) -> Command {
    release_keys(several(keys), token, keep)
}

pub(crate) fn inspect(key: impl AsRef<[u8]>) -> Command {
    Command::from(Operation::Inspect { key: bytes(key) })
}

pub(crate) fn remove(key: impl AsRef<[u8]>) -> Command {
    Command::from(Operation::Remove { key: bytes(key) })
}

pub(crate) fn scan(prefix: impl AsRef<[u8]>, cursor: u64) -> Command {
    let prefix = bytes(prefix);
    Command::from(Operation::Scan { prefix, cursor })
}

pub(crate) fn describe() -> Command {
    Command::from(Operation::Describe)
}

/// The answer to an operation on several keys, one integer for each.
pub(crate) fn answers(answers: &[i64]) -> Reply {
    Reply::Array(answers.iter().copied().map(Reply::Int).collect())
}
