//! What an author of a backend brings.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::MAX_IN_FLIGHT;
use super::doubts::MAX_GIVEN_UP;
use crate::node::{Command, NodeError, Reply};
use crate::runtime::BoxFuture;

/// The most commands that one [`Connection`] ever has without an answer: its queue needs as many
/// places, so that `send` never has to wait for one.
pub const MAX_PENDING: usize = 2 * (MAX_IN_FLIGHT + MAX_GIVEN_UP);

/// A Redis client for one server: it says how to open a connection.
///
/// The promises of an implementation are those of the [module](super#what-the-author-promises).
pub trait Client: Send + Sync + 'static {
    /// What commands are sent over.
    type Connection: Connection;

    /// Where the server is, without secrets: `127.0.0.1:6379`. See
    /// [`RedisNode::label`](crate::RedisNode::label).
    fn label(&self) -> &str;

    /// Opens a connection, up to the end of the handshake: logged in, and with its database selected.
    ///
    /// Runs in a task of the connection, on the runtime of the call that needed it. The keeper cuts it
    /// off a little after `within`, so that a client that can say which step took too long has the
    /// time to do so.
    ///
    /// # Errors
    ///
    /// [`NodeError::not_sent`] with the transport's error as its source, or
    /// [`NodeError::server`] with what the server answered to the handshake. An error of another kind
    /// becomes the source of a `not_sent`, since no command has left.
    fn connect(
        &self,
        within: Duration,
    ) -> impl Future<Output = Result<Opened<Self::Connection>, NodeError>> + Send;

    /// The server that was reached last is the wrong one, as it says itself (`READONLY`, say): if its name
    /// has several addresses, the next connect is to try another one first. Does nothing by default.
    fn prefer_another_address(&self) {}
}

/// A connection that is ready for commands. It carries many of them at a time, in order.
pub trait Connection: Send + Sync + 'static {
    /// Sends the command, and waits for its reply.
    ///
    /// The first poll of the future hands the [words](Command::args) of the command to the
    /// connection. Commands leave in the order of these first polls.
    ///
    /// # Errors
    ///
    /// The kind of the error tells the keeper what happened:
    ///
    /// - [`Server`](crate::node::NodeErrorKind::Server) and
    ///   [`UnexpectedReply`](crate::node::NodeErrorKind::UnexpectedReply): the server answered.
    /// - [`NotSent`](crate::node::NodeErrorKind::NotSent): nothing left, and nothing will.
    /// - [`Connection`](crate::node::NodeErrorKind::Connection): the connection is of no more use. The
    ///   command may have taken effect. If the client takes an answer of the server for the end of the
    ///   connection, that [`NodeError::server`] is the source, and is what the caller is told.
    /// - [`NoAnswer`](crate::node::NodeErrorKind::NoAnswer): the client lost patience, and the
    ///   connection goes on.
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static;
}

/// A connection, and the future that moves its bytes.
pub struct Opened<C> {
    pub(super) connection: C,
    pub(super) driver: BoxFuture<'static, NodeError>,
}

impl<C: Connection> Opened<C> {
    /// The keeper polls `driver` in the task that connected, for as long as the connection is in use,
    /// and drops it to close the connection. It ends when the connection breaks; its error is what
    /// calls in flight are told, so it is a [`NodeError::connection`] with the transport's error, or
    /// the server's last words, as its source.
    ///
    /// A client that runs tasks of its own gives a future that ends when they do; one that cannot
    /// tell gives [`std::future::pending`].
    pub fn new(connection: C, driver: impl Future<Output = NodeError> + Send + 'static) -> Self {
        Self {
            connection,
            driver: Box::pin(driver),
        }
    }
}

impl<C> fmt::Debug for Opened<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}
