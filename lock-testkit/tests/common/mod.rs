//! What the tests of this crate share.

#![allow(dead_code, reason = "no test uses all of it")]

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lock_core::node::{Command, ExtendEntry, Operation};
use lock_core::runtime::{BoxFuture, Runtime};
use lock_core::{Token, Ttl};

/// Longer than any test lets pass between a call and its answer.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Tokio's clock, which a test can pause.
#[derive(Debug)]
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(crate) fn start() -> Arc<dyn Runtime> {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Runtime for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(tokio::spawn(task));
    }
}

/// Where tokens come from when no clock is needed.
#[derive(Debug)]
struct NoClock;

impl Runtime for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> [u8; 16] {
        random()
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {}
}

fn random() -> [u8; 16] {
    let half = || RandomState::new().hash_one(0).to_be_bytes();
    let mut random = [0; 16];
    random[..8].copy_from_slice(&half());
    random[8..].copy_from_slice(&half());
    random
}

pub(crate) fn token() -> Token {
    Token::generate(&NoClock)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn ttl(ttl_in_millis: u64) -> Ttl {
    Ttl::new(millis(ttl_in_millis)).unwrap()
}

pub(crate) fn acquire(key: &str, token: Token, ttl_in_millis: u64) -> Command {
    Command::from(Operation::Acquire {
        key: Arc::from(key.as_bytes()),
        token,
        ttl: ttl(ttl_in_millis),
    })
}

pub(crate) fn acquire_or_tell(key: &str, token: Token, ttl_in_millis: u64) -> Command {
    Command::from(Operation::AcquireOrTell {
        key: Arc::from(key.as_bytes()),
        token,
        ttl: ttl(ttl_in_millis),
    })
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

pub(crate) fn release(key: &str, token: Token) -> Command {
    release_keeping(key, token, Duration::ZERO)
}

pub(crate) fn release_keeping(key: &str, token: Token, keep: Duration) -> Command {
    Command::from(Operation::Release {
        key: Arc::from(key.as_bytes()),
        token,
        keep,
    })
}

/// Looks until `holds`, for longer than a busy machine needs.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(millis(10));
    }
}
