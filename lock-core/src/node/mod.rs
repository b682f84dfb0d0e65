//! For backend authors: one independent Redis server as the algorithm sees it, [`RedisNode`], with its
//! commands and replies.

mod command;
mod error;
mod keys;
mod operation;
mod reply;
mod subscription;
mod token;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::runtime::BoxFuture;

pub use command::Command;
pub use error::{NodeError, NodeErrorKind};
pub use keys::Keys;
pub use operation::{ExtendEntry, Fence, Guard, Operation};
pub use reply::Reply;
#[cfg(test)]
pub(crate) use reply::any_reply;
pub use subscription::{Subscription, SubscriptionEvent, SubscriptionSender};
pub use token::Token;
pub(crate) use token::note_of;

/// Sends commands to one Redis server.
///
/// This is the whole interface between the algorithm and a Redis client. A backend sends
/// [`Command::args`], and turns the answer into a [`Reply`] or a [`NodeError`]. Most of its work is to
/// keep the rules below when a connection breaks, so [`backend`](crate::backend) does that for any
/// client that can connect and send. The suite `lock_testkit::conformance!` checks the rules.
/// Implementations carry `#[async_trait]` of the crate `async-trait`.
///
/// A wrapper around another node is the simplest one:
///
/// ```
/// use std::time::Duration;
/// use async_trait::async_trait;
/// use lock_core::node::Subscription;
/// use lock_core::{Command, DistributedLockExt, NodeError, RedisNode, Redlock, Reply};
/// # use lock_testkit::MemoryNode;
///
/// /// Prints every command that did not work.
/// #[derive(Debug)]
/// struct Printing<N>(N);
///
/// #[async_trait]
/// impl<N: RedisNode> RedisNode for Printing<N> {
///     async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
///         let answer = self.0.execute(command, within).await;
///         if let Err(error) = &answer {
///             println!("{}: {}: {error}", self.label(), command.operation().name());
///         }
///         answer
///     }
///
///     async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
///         self.0.subscribe(channel).await
///     }
///
///     fn label(&self) -> &str {
///         self.0.label()
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let locks = Redlock::new(MemoryNode::several(3).into_iter().map(Printing))?;
/// let guard = locks.lock("invoice-7").await?;
/// # guard.release().await?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Rules
///
/// The algorithm is only as safe as the nodes that it talks to. Every implementation keeps these
/// rules; docs and tests refer to them by number.
///
/// - **N1** A command takes effect atomically, or not at all.
/// - **N2** `Ok` carries what the server answered to this very command.
/// - **N3** `Err` means that the command *may* have taken effect, except for
///   [`NodeErrorKind::NotSent`], which promises that nothing left this process and nothing will.
///   An error is never turned into a refusal, nor a refusal into an error.
/// - **N4** Keys expire on the server's clock.
/// - **N5** A command is sent at most once. The algorithm retries; the client must not, neither
///   after a reconnect nor from an offline queue.
/// - **N6** Dropping the future of a call leaves the connection usable and the replies of other
///   calls paired with their commands. The dropped command may still take effect.
/// - **N7** While disconnected, calls fail fast: either one connect attempt runs, or a pause of at
///   most 250 ms before the next one. The node comes back by itself, without being built anew.
/// - **N8** Calls are independent and may run concurrently.
/// - **N9** Keys, tokens and values are bytes, never text.
/// - **N10** An error keeps the server's code (`NOAUTH`, `READONLY`, `OOM`, ...) and the
///   transport's cause, see [`NodeError`].
/// - **N11** A secret in a URL never shows in `Debug`, `Display` or a log.
/// - **N12** Commands for one key leave on ONE connection in the order of the calls, where a call
///   counts from the first poll of its future. A pool chooses the connection by a hash of the key.
///   A connection that is replaced first takes the releases that belong behind its doubtful
///   acquires ([`Operation::undo`]); 20 s after an acquire was left without an answer, both have
///   taken effect or never will.
///
/// # Cancel safety
///
/// See N6. The algorithm itself drives every call to its end and never drops one half-way, except
/// when the runtime that drives it ends.
#[async_trait]
pub trait RedisNode: Debug + Send + Sync + 'static {
    /// Sends the command, at most once, and answers within about `within`.
    ///
    /// The algorithm has a timer of its own, so `within` is there to bound what the caller cannot
    /// see: a timeout of the client, a pool's checkout, a connect that is under way.
    ///
    /// # Errors
    ///
    /// A [`NodeError`] says what is known about the command's fate, see N3 and N10.
    ///
    /// # Cancel safety
    ///
    /// See N6: the command of a dropped call may still take effect.
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError>;

    /// Listens for wake-ups on a pub/sub channel.
    ///
    /// # Errors
    ///
    /// [`NodeError::cannot_listen`] from a node that cannot listen; waiting then falls back to timers.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves no subscription behind.
    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError>;

    /// Where the node is, without secrets: `127.0.0.1:6379`.
    ///
    /// It names the node in errors. Two nodes of one lock must not have the same label: the same
    /// server would vote twice.
    fn label(&self) -> &str;
}

/// Forwards to the node inside, and returns its future as it is: another one around it would be
/// another box.
macro_rules! forward {
    ($($pointer:ident),*) => {
        $(#[async_trait]
        impl<N: RedisNode + ?Sized> RedisNode for $pointer<N> {
            fn execute<'n, 'c, 'f>(
                &'n self,
                command: &'c Command,
                within: Duration,
            ) -> BoxFuture<'f, Result<Reply, NodeError>>
            where
                'n: 'f,
                'c: 'f,
                Self: 'f,
            {
                (**self).execute(command, within)
            }

            fn subscribe<'n, 'c, 'f>(
                &'n self,
                channel: &'c [u8],
            ) -> BoxFuture<'f, Result<Subscription, NodeError>>
            where
                'n: 'f,
                'c: 'f,
                Self: 'f,
            {
                (**self).subscribe(channel)
            }

            fn label(&self) -> &str {
                (**self).label()
            }
        })*
    };
}

forward!(Arc, Box);
