//! What the author of a backend gives to the suite.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::RedisNode;

use crate::conformance::{CheckResult, Driver, Failure};

/// Makes servers, and nodes that talk to them.
///
/// For a client of Redis, `RedisHarness` is all that is needed. Implement it for nodes that talk to
/// something else.
#[async_trait]
pub trait NodeHarness: Debug + Send + Sync + 'static {
    /// What the checks run on.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Starts a server for one check, empty and well.
    ///
    /// # Errors
    ///
    /// [`Failure::setup`].
    async fn start(&self) -> CheckResult<Box<dyn NodeBed>>;

    /// A node of a server that another process started, by its [address](NodeBed::address).
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if processes cannot share it.
    async fn join(&self, address: &str) -> CheckResult<Arc<dyn RedisNode>>;
}

/// One server of one check, seen from outside, and a way to make nodes that talk to it.
///
/// Dropping it ends the server. Whatever it cannot do it answers with [`Failure::unsupported`], so
/// that nothing is passed over in silence.
#[async_trait]
pub trait NodeBed: Debug + Send + Sync + 'static {
    /// A new node of the server, as a process of its own would have one.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being built. That nobody answers is no reason: a node connects when
    /// it is used.
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>>;

    /// Where another process finds the server; `None` if it cannot.
    fn address(&self) -> Option<String>;

    /// Lets that much time pass on the server's clock.
    async fn pass(&self, time: Duration);

    /// Makes something go wrong from now on, besides what went wrong before. Of the faults of the
    /// network, [`NodeFault::Refuse`] to [`NodeFault::Delay`] without [`NodeFault::Hang`], the last
    /// one may count alone.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`], or what went wrong with it.
    async fn inject(&self, fault: &NodeFault) -> CheckResult;

    /// Ends all faults.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn heal(&self) -> CheckResult;

    /// What a key holds, read without any node under test. Works whatever the fault, unless the
    /// server itself is stopped.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn look(&self, key: &[u8]) -> CheckResult<Entry>;

    /// Sets a key from outside, or removes it.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn put(&self, key: &[u8], entry: &Entry) -> CheckResult;

    /// All keys of the server.
    ///
    /// # Errors
    ///
    /// What went wrong with it.
    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>>;

    /// Makes the server forget all scripts.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if there are none.
    async fn flush_scripts(&self) -> CheckResult;

    /// How many connections of nodes under test are open.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if there are no connections.
    async fn connections(&self) -> CheckResult<usize>;

    /// How many connections nodes under test have ever opened.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if there are no connections.
    async fn opened(&self) -> CheckResult<usize>;

    /// The commands that nodes under test have sent so far, each as its words, in the order in
    /// which they came to the server; without those of a handshake. Those that a fault lost on
    /// their way are among them.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if nobody can tell.
    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>>;
}

/// How a node is to log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The protocol; by the client's default if none is named.
    pub protocol: Option<Protocol>,
    /// A password. The server is made to ask for [`Access::PASSWORD`] by the first access that has
    /// one.
    pub password: Option<&'static str>,
}

impl Access {
    /// What servers ask for, with letters that have to be escaped in a URL.
    pub const PASSWORD: &'static str = "s3cr3t/p@ss";

    /// With this protocol.
    #[must_use]
    pub fn protocol(protocol: Protocol) -> Self {
        Self {
            protocol: Some(protocol),
            ..Self::default()
        }
    }

    /// With this password.
    #[must_use]
    pub fn password(password: &'static str) -> Self {
        Self {
            password: Some(password),
            ..Self::default()
        }
    }
}

/// The versions of the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "their names")]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// Nothing: there is no such key.
    Missing,
    /// A string.
    Value {
        /// Its bytes.
        value: Vec<u8>,
        /// What is left of its life; `None` if it lives for ever.
        ttl: Option<Duration>,
    },
    /// Something that is no string, and lives for ever.
    OtherType,
}

impl Entry {
    /// A string that lives for ever.
    pub fn forever(value: impl Into<Vec<u8>>) -> Self {
        Self::Value {
            value: value.into(),
            ttl: None,
        }
    }
}

/// What can go wrong with a server or the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeFault {
    /// It is down: open connections break, new ones are refused. Its keys stay.
    Refuse,
    /// It is stopped: it takes connections and commands and answers none. When it is healed it
    /// first runs what it was sent.
    Hang,
    /// The network swallows everything, in both directions, and nothing is closed.
    BlackHole,
    /// As that, for the connections that are open at this moment alone: new ones work.
    HalfOpen,
    /// All open connections are closed, once.
    Cut,
    /// The next command is lost with its connection, once: the server never sees it.
    LoseCommand,
    /// The next command is carried out, and the connection breaks before its reply is back; once.
    LoseReply,
    /// Replies are held back until it is healed, and then come.
    HoldReplies,
    /// Replies come that much later.
    Delay(Duration),
    /// It restarts without its keys, once.
    RestartEmpty,
    /// It restarts with its keys, once.
    RestartWithKeys,
    /// It answers commands with an error.
    Deny(Denial),
    /// It closes connections on which nothing happens for about a second.
    CloseIdle,
}

/// For what reason a server answers with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// Nobody has logged in: `NOAUTH`.
    NoAuth,
    /// The user may not use the commands that the node sends: `NOPERM`.
    NoPerm,
    /// The user may not use `GET`, which every script runs, but may use what the node itself
    /// sends: `ERR`, with a text that says so. What was acquired before stays.
    NoPermInScript,
    /// It is a replica: `READONLY`.
    ReadOnly,
    /// It has no memory left: `OOM`. Extensions and releases work.
    OutOfMemory,
    /// It is loading its data: `LOADING`.
    Loading,
    /// It cannot save and takes no writes: `MISCONF`.
    Misconf,
    /// It has been running a script for too long: `BUSY`.
    Busy,
    /// The key belongs to another node of a cluster: `MOVED`.
    Moved,
}

impl Denial {
    /// The code of the error.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoAuth => "NOAUTH",
            Self::NoPerm => "NOPERM",
            Self::NoPermInScript => "ERR",
            Self::ReadOnly => "READONLY",
            Self::OutOfMemory => "OOM",
            Self::Loading => "LOADING",
            Self::Misconf => "MISCONF",
            Self::Busy => "BUSY",
            Self::Moved => "MOVED",
        }
    }

    /// The whole error line as a server writes it.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::NoAuth => "NOAUTH Authentication required.",
            Self::NoPerm => "NOPERM this user has no permissions to run the 'set' command",
            Self::NoPermInScript => {
                "ERR The user executing the script can't run this command or subcommand script"
            }
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::Misconf => "MISCONF Redis is configured to save RDB snapshots, but it can't",
            Self::Busy => "BUSY Redis is busy running a script.",
            Self::Moved => "MOVED 3999 127.0.0.1:6381",
        }
    }
}

/// An error of a node's constructor.
pub(crate) fn not_built(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(
        "a node that is built without IO",
        crate::conformance::failure::chain(error),
    )
}
