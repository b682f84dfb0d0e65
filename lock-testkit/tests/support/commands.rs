//! Commands in a few words.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::node::{ExtendEntry, Keys, Operation};
use lock_core::runtime::ThreadRuntime;
use lock_core::{Command, NodeError, RedisNode, Reply, Runtime, Token, Ttl};

use lock_testkit::RedisServer;

/// Long enough for a busy machine, short of a hang.
pub const LONG: Duration = Duration::from_secs(10);
/// Short enough for a test that waits for it to pass.
pub const SHORT: Duration = Duration::from_millis(100);
/// No test takes so long: whatever is gone was deleted.
pub const TTL: Duration = Duration::from_secs(60);

pub fn token() -> Token {
    Token::generate(&*ThreadRuntime::shared())
}

fn bytes(key: impl AsRef<[u8]>) -> Arc<[u8]> {
    Arc::from(key.as_ref())
}

pub fn ttl() -> Ttl {
    Ttl::new(TTL).unwrap()
}

fn acquire_key(key: impl AsRef<[u8]>, token: Token, report_holder: bool) -> Command {
    Command::from(Operation::Acquire {
        keys: Keys::One(bytes(key)),
        token,
        ttl: ttl(),
        report_holder,
        fence: None,
        guard: None,
    })
}

pub fn acquire(key: impl AsRef<[u8]>, token: Token) -> Command {
    acquire_key(key, token, false)
}

pub fn acquire_or_report(key: impl AsRef<[u8]>, token: Token) -> Command {
    acquire_key(key, token, true).with_source()
}

pub fn extend(entries: &[(&[u8], Token)]) -> Command {
    let entry = |&(key, token): &(&[u8], Token)| ExtendEntry {
        key: bytes(key),
        token,
        ttl: ttl(),
    };
    Command::from(Operation::Extend {
        entries: entries.iter().map(entry).collect(),
    })
    .with_source()
}

pub fn release(key: impl AsRef<[u8]>, token: Token) -> Command {
    release_keeping(key, token, Duration::ZERO)
}

pub fn release_keeping(key: impl AsRef<[u8]>, token: Token, keep: Duration) -> Command {
    let keys = Keys::One(bytes(key));
    Command::from(Operation::Release { keys, token, keep }).with_source()
}

/// Calls until the node answers, as a lock's retries do.
pub async fn until_answered(node: &dyn RedisNode) -> Reply {
    let start = Instant::now();
    loop {
        match node.execute(&release("nobody", token()), SHORT).await {
            Ok(reply) => return reply,
            Err(error) => assert!(start.elapsed() < LONG, "{error}"),
        }
        pause().await;
    }
}

/// Polls until the condition holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "never: {what}");
        pause().await;
    }
}

/// A moment, on any executor.
async fn pause() {
    let pause = ThreadRuntime::shared().sleep(Duration::from_millis(5));
    pause.await;
}

/// How many keys the server has.
pub fn keys(server: &RedisServer) -> i64 {
    match server.command(&["DBSIZE"]).unwrap() {
        Reply::Int(count) => count,
        other => panic!("{other:?}"),
    }
}

/// How often the server ran a command, scripts included.
pub fn calls(server: &RedisServer, command: &str) -> u64 {
    let Reply::Bytes(info) = server.command(&["INFO", "commandstats"]).unwrap() else {
        panic!("no INFO");
    };
    let info = String::from_utf8(info).unwrap();
    let prefix = format!("cmdstat_{command}:calls=");
    info.lines()
        .find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

/// The error and its cause in one line.
pub fn chain(error: &NodeError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
