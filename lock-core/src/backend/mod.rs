//! For backend authors: a [`RedisNode`](crate::RedisNode) of any client that can connect and send.
//!
//! Most of a backend is about connections that break or hang. That is done here, once for all: an author
//! says how to open a connection ([`Client`]) and how to send a command over it ([`Connection`]), and
//! gets a [`ClientNode`], which keeps the rules N3, N5 to N8 and N12 of
//! [`RedisNode`](crate::RedisNode#rules).
//!
//! ```
//! use std::time::Duration;
//!
//! use lock_core::backend::{Client, ClientNode, Connection, Opened};
//! use lock_core::{Command, DistributedLockExt, NodeError, Redlock, Reply};
//! # use lock_core::RedisNode;
//! # use lock_testkit::MemoryNode;
//!
//! struct MyClient(/* .. */ MemoryNode);
//! struct MyConnection(/* .. */ MemoryNode);
//!
//! impl Client for MyClient {
//!     type Connection = MyConnection;
//!
//!     fn label(&self) -> &str {
//!         "127.0.0.1:6379"
//!     }
//!
//!     async fn connect(&self, _within: Duration) -> Result<Opened<MyConnection>, NodeError> {
//!         let connection = MyConnection(self.0.clone());
//!         let driver = std::future::pending(); // What moves the bytes, until the connection breaks.
//!         Ok(Opened::new(connection, driver))
//!     }
//! }
//!
//! impl Connection for MyConnection {
//!     fn send(
//!         &self,
//!         command: &Command,
//!     ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
//!         let (client, command) = (self.0.clone(), command.clone());
//!         // A real client sends the words `command.args()`.
//!         async move { client.execute(&command, Duration::from_secs(1)).await }
//!     }
//! }
//!
//! # futures::executor::block_on(async {
//! # let server = MemoryNode::new("127.0.0.1:6379");
//! let locks = Redlock::new([ClientNode::new(MyClient(server))])?;
//! let guard = locks.lock("invoice-7").await?;
//! guard.release().await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The repository's example `custom_backend` is a whole one, with a client over TCP that is made by
//! hand. The suite `lock_testkit::conformance!` shows whether a backend keeps all rules.
//!
//! # What the author promises
//!
//! 1. [`Client::connect`] opens one connection, and tries once. It changes nothing on the server that
//!    matters to anybody else.
//! 2. The first poll of [`Connection::send`] hands the command over, without waiting for anything: the
//!    client has a queue with room for [`MAX_PENDING`] commands. On tokio, a `Sender::send` of a bounded
//!    channel may wait although there is room, for the sake of other tasks
//!    (`tokio::task::unconstrained` helps); an unbounded one never does.
//! 3. Commands leave in the order in which they were handed over, each at most once, and each reply goes
//!    to its own command. The client neither sends again nor reconnects by itself.
//! 4. Dropping the future of a call leaves the connection usable and other replies with their commands.
//!    The dropped command may be sent or left out. Where the connection has ended, a future need not
//!    end.
//! 5. When the connection breaks, its driver ends, or a call says so by an error of the kind
//!    [`Connection`](crate::node::NodeErrorKind::Connection). When the driver is dropped, the connection
//!    closes.
//! 6. An error of a call says what the keeper needs to know, see [`Connection::send`]. A secret is in
//!    none of them, nor in the label.
//!
//! The rest are the rules N1, N2, N4 and N9 to N11, which are about what is sent and what is answered.
//!
//! # What the keeper keeps
//!
//! - **One connect at a time**, in a task of its own that survives the caller. After one that failed there
//!   is a pause of 10 ms that doubles up to 250 ms, with jitter; calls fail at once meanwhile, with the
//!   cause. A connection that breaks before any reply counts as a failed connect.
//! - **Calls wait for the connect in their order**, no longer than they may, and leave before any that
//!   comes later. A call that finds a connect under way for longer than it may take itself fails at once.
//! - **A call ends in time**, whether it was sent or not. A call that ends without an answer, or is
//!   dropped, is in doubt.
//! - **Connections that hang are replaced** after three calls in a row without an answer; half-open ones
//!   too. Calls that time out in one stall of the server count once.
//! - **Releases behind doubtful acquires** are written on a connection that is replaced, before another
//!   one takes calls. It is kept until they are answered, for five seconds at most; no more than four
//!   such connections are kept.
//! - **A server that is the wrong one**, as it says by `READONLY`, `MASTERDOWN` or `LOADING`, stays in use
//!   while another connection is opened, every 250 ms at most: its name may lead to another one by now. The
//!   new connection takes its place as soon as it stands, and the old one gets its releases first.
//! - **Nothing leaves late.** An acquire that stays in doubt alone has its connection replaced after five
//!   seconds. A connection whose driver was not polled for ten seconds while commands waited for it, since
//!   its runtime was blocked or nobody ran it, is closed without being polled: what it would write then,
//!   releases included, could undo a key that was set again meanwhile. A client with tasks of its own
//!   writes in those, and has to see to this by itself.
//! - **Limits**: 8,192 calls in flight and 4,096 that wait for a connect. Calls beyond that are not sent.
//! - **The end of a runtime** is the end of its connections and connects, and the next call starts anew on
//!   its own runtime. A runtime that exists but is not driven holds up nobody on another one.
//!
//! Tasks, timers and chance come from a [`Runtime`](crate::Runtime) alone: by default from the
//! [ambient](crate::runtime::ambient) one of the call that connects. So a client on tokio needs the feature
//! `tokio` of this crate; without it a thread of this crate polls the client, outside of tokio.
//!
//! # A whole cluster
//!
//! [`ClusterNode`] is one node of all masters of a Redis Cluster, each with a keeper of its own, for a client
//! that is a [`ClusterClient`] too.
//!
//! # When not to use it
//!
//! Implement [`RedisNode`](crate::RedisNode) yourself for what has no connection of its own to keep: a
//! node in memory, a proxy in front of other nodes, a connection that somebody else replaces. A pool can be
//! several [`ClientNode`]s, among which a hash of the key chooses (rule N12).

mod addresses;
mod at_connect;
mod call;
mod calls;
mod client;
mod cluster;
mod dialing;
mod doubts;
mod invalid_url;
mod keeper;
mod led;
mod link;
mod node;
mod place;
mod protocol_probe;
mod queue;
mod sentinels;

use std::error::Error;
use std::task::Waker;

pub use addresses::Addresses;
pub use at_connect::{AtConnect, Credentials};
pub use client::{Client, Connection, MAX_PENDING, Opened};
pub use cluster::{ClusterClient, ClusterNode, InvalidCluster};
pub use invalid_url::InvalidUrl;
pub use led::LedClient;
pub use node::ClientNode;
pub use protocol_probe::{Protocol, ProtocolProbe};
pub use sentinels::{InvalidSentinels, SentinelClient, Sentinels};

use crate::node::{NodeError, NodeErrorKind};
use crate::runtime::contain;

/// How many calls may be in flight on one connection. Callers that are faster than the server get an
/// error, since nothing here may grow without bounds.
const MAX_IN_FLIGHT: usize = 8 * 1024;

/// What the server said as it ended the connection, as that of a cluster that is down may do.
fn last_words(why: &NodeError) -> Option<&NodeError> {
    if why.kind() != NodeErrorKind::Connection {
        return None;
    }
    let words = why.source()?.downcast_ref::<NodeError>()?;
    (words.kind() == NodeErrorKind::Server).then_some(words)
}

/// Wakers are foreign code: they are called when no lock is held, and if one panics, the others are
/// called nevertheless.
fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        contain(|| waker.wake());
    }
}

#[cfg(test)]
mod tests;
