//! What a node needs to reach all servers of a cluster. fred's own way is not used: it sends commands again.

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Resp3Frame, Value};
use lock_core::backend::{Client, ClusterClient, ClusterNode, InvalidCluster};
use lock_core::{Command, NodeError, Reply};
use tokio::task::unconstrained;

use crate::client::FredClient;
use crate::connection::{FredConnection, broken};
use crate::convert::{encode, server_error, value};

/// A node of the cluster that these servers belong to.
pub(crate) fn node(servers: Vec<FredClient>) -> Result<ClusterNode<FredClient>, InvalidCluster> {
    for server in &servers {
        let fault = match server.settings.host_and_port() {
            _ if server.sentinels.is_some() => "is led by sentinels",
            Some(_) => continue,
            None => "is a unix socket",
        };
        let label = server.label();
        let fault = format!("{label} {fault}, but has to be the address of one of its servers");
        return Err(InvalidCluster::new(fault));
    }
    ClusterNode::new(servers)
}

impl ClusterClient for FredClient {
    /// A pipeline goes to fred's own task as a whole, which writes nothing in between.
    fn send_asking(
        connection: &FredConnection,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (client, encoded) = (connection.0.clone(), command.encoded(encode));
        // Putting a pipeline together waits for nothing, but tokio may hold that back for the sake of others.
        unconstrained(async move {
            let both = client.pipeline();
            let asking = CustomCommand::new_static("ASKING", ClusterHash::FirstKey, false);
            let (command, args) = (encoded.command.clone(), encoded.args.clone());
            let _: Resp3Frame = both
                .custom_raw(asking, Vec::<Value>::new())
                .await
                .map_err(broken)?;
            let _: Resp3Frame = both.custom_raw(command, args).await.map_err(broken)?;
            match both.last::<Value>().await {
                Ok(answer) => Ok(value(answer)),
                Err(error) => Err(server_error(&error).unwrap_or_else(|| broken(error))),
            }
        })
    }
}
