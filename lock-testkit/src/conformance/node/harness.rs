//! What the suite needs from the author of a backend.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::RedisNode;

use crate::conformance::{CheckResult, Driver, Failure};

/// Makes servers, and nodes that talk to them.
///
/// For a client of Redis, `RedisHarness` is all that is needed. Implement this trait for nodes that
/// talk to something else.
#[async_trait]
pub trait NodeHarness: Debug + Send + Sync + 'static {
    /// Returns the runtime on which the checks run.
    fn driver(&self) -> Arc<dyn Driver>;

    /// Starts a server for one check, empty and healthy.
    ///
    /// # Errors
    ///
    /// [`Failure::setup`].
    async fn start(&self) -> CheckResult<Box<dyn NodeBed>>;

    /// Makes a node of a server that another process started, by its [address](NodeBed::address).
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if processes cannot share a server.
    async fn join(&self, address: &str) -> CheckResult<Arc<dyn RedisNode>>;
}

/// One server of one check, seen from outside, and a way to make nodes that talk to it.
///
/// Dropping it ends the server. A method that cannot do what it is asked answers with
/// [`Failure::unsupported`], so that nothing is skipped in silence.
#[async_trait]
pub trait NodeBed: Debug + Send + Sync + 'static {
    /// Makes a new node of the server, such as another process would have.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built. That the server does not answer is not one: a node connects
    /// when it is used.
    async fn connect(&self, access: &Access) -> CheckResult<Arc<dyn RedisNode>>;

    /// Returns the address by which another process finds the server, or `None` if it cannot.
    fn address(&self) -> Option<String>;

    /// Lets this much time pass on the server's clock.
    async fn pass(&self, time: Duration);

    /// Adds a fault to those that there are. Of the faults of the network, [`NodeFault::Refuse`] to
    /// [`NodeFault::Delay`] without [`NodeFault::Hang`], only the last one need have an effect.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`], or why it failed.
    async fn inject(&self, fault: &NodeFault) -> CheckResult;

    /// Ends all faults.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn heal(&self) -> CheckResult;

    /// Reads a key without a node under test. It works whatever the fault, unless the server itself
    /// is stopped.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn look(&self, key: &[u8]) -> CheckResult<Entry>;

    /// Sets a key from outside, or removes it.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn put(&self, key: &[u8], entry: &Entry) -> CheckResult;

    /// Returns all keys of the server.
    ///
    /// # Errors
    ///
    /// Why it failed.
    async fn keys(&self) -> CheckResult<Vec<Vec<u8>>>;

    /// Makes the server forget all scripts.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if it has no scripts.
    async fn flush_scripts(&self) -> CheckResult;

    /// Returns how many connections of nodes under test are open.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if there are no connections.
    async fn connections(&self) -> CheckResult<usize>;

    /// Returns how many connections nodes under test have ever opened.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if there are no connections.
    async fn opened(&self) -> CheckResult<usize>;

    /// Returns the commands that nodes under test have sent so far, each as its words, in the order in
    /// which they reached the server, without those of a handshake. Commands that a fault lost on their
    /// way are among them.
    ///
    /// # Errors
    ///
    /// [`Failure::unsupported`] if this cannot be known.
    async fn received(&self) -> CheckResult<Vec<Vec<Vec<u8>>>>;
}

/// How a node is to connect and log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The protocol; `None` is the client's default.
    pub protocol: Option<Protocol>,
    /// A password. From the first access with a password on, the server asks for
    /// [`Access::PASSWORD`].
    pub password: Option<&'static str>,
}

impl Access {
    /// The password of servers, with characters that have to be escaped in a URL.
    pub const PASSWORD: &'static str = "s3cr3t/p@ss";

    /// Access with this protocol.
    #[must_use]
    pub fn protocol(protocol: Protocol) -> Self {
        Self {
            protocol: Some(protocol),
            ..Self::default()
        }
    }

    /// Access with this password.
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

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// Nothing: there is no such key.
    Missing,
    /// A string.
    Value {
        /// Its bytes.
        value: Vec<u8>,
        /// What is left of its life; `None` if it has no expiry.
        ttl: Option<Duration>,
    },
    /// Something that is not a string, without an expiry.
    OtherType,
}

impl Entry {
    /// A string without an expiry.
    pub fn forever(value: impl Into<Vec<u8>>) -> Self {
        Self::Value {
            value: value.into(),
            ttl: None,
        }
    }
}

/// A fault of a server or of the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeFault {
    /// The server is down: open connections break, new ones are refused. Its keys stay.
    Refuse,
    /// The server is stopped: it accepts connections and commands and answers none. When it is healed
    /// it first runs the commands that it was sent.
    Hang,
    /// The network swallows everything, in both directions, and nothing is closed.
    BlackHole,
    /// The network swallows everything on the connections that are open at this moment, and does not
    /// close them. New connections work.
    HalfOpen,
    /// All open connections are closed, once.
    Cut,
    /// The next command is lost with its connection, once: the server never sees it.
    LoseCommand,
    /// The next command is carried out, and the connection breaks before its reply is back; once.
    LoseReply,
    /// Replies are held back until the fault ends, and then come.
    HoldReplies,
    /// Replies come this much later.
    Delay(Duration),
    /// The server restarts without its keys, once.
    RestartEmpty,
    /// The server restarts with its keys, once.
    RestartWithKeys,
    /// The server answers commands with an error.
    Deny(Denial),
    /// The server closes connections on which nothing happens for about a second.
    CloseIdle,
}

/// Why a server answers with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The client has not logged in: `NOAUTH`.
    NoAuth,
    /// The user may not use the commands that the node sends: `NOPERM`.
    NoPerm,
    /// The user may not use `GET`, which every script runs, but may use what the node itself
    /// sends: a text of the server's that is read as `NOPERM`. What was acquired before stays.
    NoPermInScript,
    /// The server is a replica: `READONLY`.
    ReadOnly,
    /// The server has no memory left: `OOM`. Extensions and releases work.
    OutOfMemory,
    /// The server is loading its data: `LOADING`.
    Loading,
    /// The server cannot save and accepts no writes: `MISCONF`.
    Misconf,
    /// The server has been running a script for too long: `BUSY`.
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
            Self::NoPerm | Self::NoPermInScript => "NOPERM",
            Self::ReadOnly => "READONLY",
            Self::OutOfMemory => "OOM",
            Self::Loading => "LOADING",
            Self::Misconf => "MISCONF",
            Self::Busy => "BUSY",
            Self::Moved => "MOVED",
        }
    }

    /// The whole line of the error, as a server writes it.
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

/// Makes a failure of an error of a node's constructor.
pub(crate) fn not_built(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(
        "a node that is built without IO",
        crate::conformance::failure::chain(error),
    )
}
