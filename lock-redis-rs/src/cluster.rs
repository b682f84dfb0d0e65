//! What a node needs to reach all servers of a cluster. redis-rs's own way is not used: it sends commands again.

use lock_core::backend::{ClusterClient, ClusterNode, InvalidCluster};
use lock_core::{Command, NodeError, Reply};
use redis::{ConnectionAddr, Pipeline};

use crate::address::Address;
use crate::connection::Own;
use crate::convert::pack;
use crate::network::unconstrained;

/// A node of the cluster that these servers belong to.
pub(crate) fn node(servers: Vec<Address>) -> Result<ClusterNode<Address>, InvalidCluster> {
    for server in &servers {
        let info = server.client.get_connection_info();
        let fault = match info.addr() {
            _ if server.sentinels.is_some() => "is led by sentinels",
            ConnectionAddr::Tcp(..) | ConnectionAddr::TcpTls { .. } => continue,
            _ => "is a unix socket",
        };
        let label = &server.label;
        let fault = format!("{label} {fault}, but has to be the address of one of its servers");
        return Err(InvalidCluster::new(fault));
    }
    ClusterNode::new(servers)
}

impl ClusterClient for Address {
    fn send_asking(
        connection: &Own,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING");
        both.add_command(command.encoded(pack).as_ref().clone());
        unconstrained(connection.request_both(both))
    }
}
