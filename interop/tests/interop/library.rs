//! The libraries on the other side.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use lock_testkit::RedisServer;
use tokio::process::Command;

use crate::peer::Peer;
use crate::plain::Plain;
use crate::program::Program;
use crate::rslock::Rslock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// No library: the three commands that everybody here agrees on.
    Plain,
    /// npm's `redlock` 5 over `ioredis`.
    Redlock5,
    /// npm's `redlock` 4 over `ioredis`.
    Redlock4,
    /// The crate `rslock`.
    Rslock,
    /// The `Lock` of Python's `redis`.
    RedisPy,
}

impl Library {
    pub(crate) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Redlock5,
        Self::Redlock4,
        Self::Rslock,
        Self::RedisPy,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Redlock5 => "npm_redlock_5",
            Self::Redlock4 => "npm_redlock_4",
            Self::Rslock => "rslock",
            Self::RedisPy => "redis_py",
        }
    }

    /// On how many servers it is tried.
    pub(crate) fn servers(self) -> usize {
        match self {
            Self::Plain | Self::Redlock5 | Self::Redlock4 => 3,
            Self::Rslock => 5,
            Self::RedisPy => 1,
        }
    }

    /// Whether it takes several keys for one lock.
    pub(crate) fn locks_several(self) -> bool {
        matches!(self, Self::Plain | Self::Redlock5 | Self::Redlock4)
    }

    /// Whether it has locks without a ttl. They are the default of redis-py.
    pub(crate) fn may_live_for_ever(self) -> bool {
        matches!(self, Self::Plain | Self::RedisPy)
    }

    /// Why it cannot be run here.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Plain | Self::Rslock => None,
            Self::Redlock5 | Self::Redlock4 => missing(
                Path::new("node"),
                "npm/package-lock.json",
                include_str!("../../package-lock.json"),
            ),
            Self::RedisPy => missing(
                &python(),
                "python/requirements.txt",
                include_str!("../../requirements.txt"),
            ),
        }
    }

    pub(crate) fn start(self, servers: &Arc<[RedisServer]>) -> Box<dyn Peer> {
        let urls = servers.iter().map(RedisServer::url);
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let redlock = |major| {
            let mut command = Command::new("node");
            command.arg(peers.join("redlock.mjs"));
            command.arg(installed().join("npm"));
            command.arg(major).args(urls.clone());
            Box::new(Program::start(command))
        };
        match self {
            Self::Plain => Box::new(Plain::new(servers)),
            Self::Redlock5 => redlock("5"),
            Self::Redlock4 => redlock("4"),
            Self::Rslock => Box::new(Rslock::new(servers)),
            Self::RedisPy => {
                let mut command = Command::new(python());
                command.arg(peers.join("redis_py.py")).args(urls);
                Box::new(Program::start(command))
            }
        }
    }
}

/// Where `scripts/interop` installs.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop")
}

fn python() -> PathBuf {
    installed().join("python/bin/python")
}

/// `pins` are what is to be installed, and the file is what was.
fn missing(program: &Path, file: &str, pins: &str) -> Option<String> {
    match std::fs::read_to_string(installed().join(file)) {
        Err(_) => return Some("not installed: run ./scripts/interop".into()),
        Ok(found) if found != pins => {
            return Some("installed in other versions: run ./scripts/interop".into());
        }
        Ok(_) => {}
    }
    let mut version = std::process::Command::new(program);
    let version = version.arg("--version").stdout(Stdio::null()).status();
    match version {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("`{}` fails: {status}", program.display())),
        Err(error) => Some(format!("`{}` does not start: {error}", program.display())),
    }
}
