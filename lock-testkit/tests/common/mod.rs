//! What the tests of this crate share.

#![allow(dead_code, reason = "no test uses all of it")]

#[cfg(unix)]
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Command, ExtendEntry, Fence, Keys, Operation};
use lock_core::runtime::ambient;
use lock_core::{FencingToken, Token, Ttl};

/// Longer than any test lets pass between a call and its answer.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn token() -> Token {
    Token::generate(&*ambient())
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn ttl(ttl_in_millis: u64) -> Ttl {
    Ttl::new(millis(ttl_in_millis)).unwrap()
}

pub(crate) fn one(key: &[u8]) -> Keys {
    Keys::One(Arc::from(key))
}

fn several(keys: &[&str]) -> Keys {
    Keys::Several(keys.iter().map(|key| Arc::from(key.as_bytes())).collect())
}

pub(crate) fn acquire_keys(
    keys: Keys,
    token: Token,
    ttl_in_millis: u64,
    report_holder: bool,
) -> Command {
    Command::from(Operation::Acquire {
        keys,
        token,
        ttl: ttl(ttl_in_millis),
        report_holder,
        fence: None,
        guard: None,
    })
}

pub(crate) fn acquire(key: &str, token: Token, ttl_in_millis: u64) -> Command {
    acquire_keys(one(key.as_bytes()), token, ttl_in_millis, false)
}

pub(crate) fn acquire_or_report(key: &str, token: Token, ttl_in_millis: u64) -> Command {
    acquire_keys(one(key.as_bytes()), token, ttl_in_millis, true)
}

pub(crate) fn extend(entries: &[(&str, Token, u64)]) -> Command {
    let entries = entries
        .iter()
        .map(|(key, token, ttl_in_millis)| ExtendEntry {
            key: Arc::from(key.as_bytes()),
            token: *token,
            ttl: ttl(*ttl_in_millis),
        });
    Command::from(Operation::Extend {
        entries: entries.collect(),
    })
}

pub(crate) fn exchange(keys: &[&str], old: &[Token], new: Token, ttl_in_millis: u64) -> Command {
    Command::from(Operation::Exchange {
        keys: several(keys),
        old: old.into(),
        new,
        ttl: ttl(ttl_in_millis),
    })
}

pub(crate) fn release(key: &str, token: Token) -> Command {
    release_keeping(key, token, Duration::ZERO)
}

pub(crate) fn release_keeping(key: &str, token: Token, keep: Duration) -> Command {
    let keys = one(key.as_bytes());
    Command::from(Operation::Release { keys, token, keep })
}

pub(crate) fn acquire_all(keys: &[&str], token: Token, ttl_in_millis: u64) -> Command {
    acquire_keys(several(keys), token, ttl_in_millis, true)
}

pub(crate) fn release_all(keys: &[&str], token: Token, keep: Duration) -> Command {
    let keys = several(keys);
    Command::from(Operation::Release { keys, token, keep })
}

fn fence(keys: &[&str], above: u64) -> Fence {
    let counter = |key: &&str| Arc::from(format!("{{{key}}}:counter").as_bytes());
    Fence {
        counters: keys.iter().map(counter).collect(),
        above: FencingToken::new(above),
        retention: ttl(10 * 3_600_000),
    }
}

pub(crate) fn acquire_fenced(
    keys: &[&str],
    token: Token,
    ttl_in_millis: u64,
    above: u64,
) -> Command {
    Command::from(Operation::Acquire {
        keys: several(keys),
        token,
        ttl: ttl(ttl_in_millis),
        report_holder: true,
        fence: Some(fence(keys, above)),
        guard: None,
    })
}

pub(crate) fn confirm(keys: &[&str], token: Token, granted: u64, raised: u64) -> Command {
    Command::from(Operation::Confirm {
        keys: several(keys),
        token,
        fence: fence(keys, 0),
        granted: FencingToken::new(granted),
        raised: FencingToken::new(raised),
    })
}

pub(crate) fn inspect(key: &str) -> Command {
    let key = Arc::from(key.as_bytes());
    Command::from(Operation::Inspect { key })
}

pub(crate) fn remove(key: &str) -> Command {
    let key = Arc::from(key.as_bytes());
    Command::from(Operation::Remove { key })
}

/// Looks until `holds`, for longer than a busy machine needs.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(millis(10));
    }
}
