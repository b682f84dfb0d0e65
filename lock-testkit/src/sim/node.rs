//! [`SimNode`]: a client's node, with the ledger's record around it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::ClientNode;
use lock_core::node::{Command, NodeError, RedisNode, Reply, Subscription};

use super::network::{EndpointId, NetworkClient};
use super::shared::{ClientRuntime, Shared};

/// A client's node for one server: a [`ClientNode`], as backends are, over the simulated network.
///
/// Each client keeps one connection to each server; connections that were replaced live on beside
/// it for a while. Clones share the connection.
#[derive(Clone)]
pub struct SimNode {
    shared: Arc<Shared>,
    id: EndpointId,
    inner: Arc<ClientNode<NetworkClient>>,
}

impl SimNode {
    pub(crate) fn new(shared: &Arc<Shared>, id: EndpointId) -> Self {
        let runtime = ClientRuntime::of_connections(shared, id.client);
        let inner = ClientNode::new(NetworkClient::new(shared, id)).runtime(Arc::new(runtime));
        Self {
            shared: Arc::clone(shared),
            id,
            inner: Arc::new(inner),
        }
    }
}

#[async_trait]
impl RedisNode for SimNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        // A call begins with its first poll.
        let call = Call::begin(self, command, within);
        let result = self.inner.execute(command, within).await;
        call.end(&result);
        result
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.inner.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.inner.label()
    }
}

/// A call under way, until it ends or is dropped.
struct Call<'n> {
    node: &'n SimNode,
    /// `None` once it is over.
    number: Option<u64>,
}

impl<'n> Call<'n> {
    fn begin(node: &'n SimNode, command: &Command, within: Duration) -> Self {
        let number = node.shared.world().call_begins(node.id, command, within);
        Self {
            node,
            number: Some(number),
        }
    }

    fn end(mut self, result: &Result<Reply, NodeError>) {
        if let Some(number) = self.number.take() {
            let SimNode { shared, id, .. } = self.node;
            shared.world().call_ends(*id, number, result);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            let SimNode { shared, id, .. } = self.node;
            shared.world().call_is_dropped(*id, number);
        }
    }
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (label, client) = (self.label(), self.id.client.0);
        write!(f, "SimNode({label}, client {client})")
    }
}
