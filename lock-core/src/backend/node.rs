//! [`ClientNode`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::client::Client;
use super::keeper::{Keeper, Settings};
use crate::node::{Command, NodeError, RedisNode, Reply, Subscription};
use crate::runtime::{BoxFuture, Runtime};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A [`RedisNode`] over a [`Client`]: one Redis server, to which it keeps one connection.
///
/// Building it does no IO, so that a dead server never keeps a service from starting: it connects at
/// the first call. What it keeps is said in the [module docs](super#what-the-keeper-keeps).
///
/// A connection lives on the runtime of the call that needed it. When that runtime ends, so does the
/// connection, and the next call opens another one on its own runtime.
///
/// When the node is dropped, its connection closes.
pub struct ClientNode<C: Client> {
    keeper: Arc<Keeper<C>>,
}

impl<C: Client> ClientNode<C> {
    /// A node that sends over this client.
    #[must_use]
    pub fn new(client: C) -> Self {
        let settings = Settings {
            connect_timeout: CONNECT_TIMEOUT,
            runtime: None,
        };
        Self::with(Arc::new(client), settings)
    }

    /// How long connecting may take, up to the end of the handshake. Defaults to one second.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        let settings = Settings {
            connect_timeout: timeout,
            ..self.keeper.settings.clone()
        };
        Self::with(Arc::clone(&self.keeper.client), settings)
    }

    /// The runtime that all connections live on, whatever the callers run on. It has to be driven:
    /// the deadlines of calls are watched there too. Defaults to the [ambient](crate::runtime::ambient)
    /// one of the call that connects.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn runtime(self, runtime: Arc<dyn Runtime>) -> Self {
        let settings = Settings {
            runtime: Some(runtime),
            ..self.keeper.settings.clone()
        };
        Self::with(Arc::clone(&self.keeper.client), settings)
    }

    /// The same node over another client.
    ///
    /// Set it before the first call.
    #[must_use]
    pub fn with_client(self, client: C) -> Self {
        Self::with(Arc::new(client), self.keeper.settings.clone())
    }

    /// The client that the node was made of.
    #[must_use]
    pub fn client(&self) -> &C {
        &self.keeper.client
    }

    /// Lets its connection go, see [`Keeper::retire`].
    pub(super) fn retire(&self) {
        self.keeper.retire();
    }

    pub(super) fn with(client: Arc<C>, settings: Settings) -> Self {
        Self {
            keeper: Arc::new(Keeper::new(client, settings)),
        }
    }
}

#[async_trait]
impl<C: Client> RedisNode for ClientNode<C> {
    // What `async_trait` makes of an `async fn`, without a future of its own around the other.
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
        self.keeper.execute(command, within)
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        self.keeper.client.label()
    }
}

impl<C: Client> fmt::Debug for ClientNode<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: a client knows credentials.
        f.debug_tuple("ClientNode").field(&self.label()).finish()
    }
}
