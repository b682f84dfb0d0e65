//! One server of a cluster, and the connection to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::Either;

use super::ClusterClient;
use crate::backend::client::{Client, Connection, Opened};
use crate::backend::keeper::Settings;
use crate::backend::led::asked;
use crate::backend::node::ClientNode;
use crate::backend::place::Place;
use crate::node::{Command, NodeError, NodeErrorKind, Reply};
use crate::runtime::ambient;

/// One server, with a keeper of connections of its own.
pub(super) struct Member<C: ClusterClient> {
    pub(super) place: Place,
    pub(super) node: ClientNode<MemberClient<C>>,
    /// It was asked in the place of another one since the map was last drawn.
    pub(super) is_asked: AtomicBool,
}

impl<C: ClusterClient> Member<C> {
    pub(super) fn new(base: &C, place: &Place, settings: Settings) -> Self {
        let client = MemberClient(base.at(&place.host, place.port));
        Self {
            place: place.clone(),
            node: ClientNode::with(Arc::new(client), settings),
            is_asked: AtomicBool::new(false),
        }
    }

    pub(super) fn client(&self) -> &C {
        &self.node.client().0
    }
}

/// Connects to a server, which has to be one of a cluster: another one that has got its address would grant every
/// lock.
pub(super) struct MemberClient<C>(C);

impl<C: ClusterClient> Client for MemberClient<C> {
    type Connection = MemberConnection<C>;

    fn label(&self) -> &str {
        self.0.label()
    }

    fn prefer_another_address(&self) {
        self.0.prefer_another_address();
    }

    async fn connect(&self, within: Duration) -> Result<Opened<Self::Connection>, NodeError> {
        let runtime = ambient();
        let end = runtime.now().saturating_add(within);
        let mut opened = self.0.connect(within).await?;
        let left = end.saturating_sub(runtime.now());
        asked::<C>(&mut opened, &["CLUSTER", "MYID"], left)
            .await
            .map_err(|error| not_of_a_cluster(self.label(), error))?;
        Ok(Opened {
            connection: MemberConnection(opened.connection),
            driver: opened.driver,
        })
    }
}

/// What a call is told of a server that says this to a question about its cluster.
pub(super) fn not_of_a_cluster(label: &str, error: NodeError) -> NodeError {
    let is_told = error.kind() == NodeErrorKind::Server
        && error.to_string().contains("cluster support disabled");
    match is_told {
        true => {
            let message = format!("{label} is not a server of a cluster");
            NodeError::not_sent(message).with_source(error)
        }
        // An answer is told as one: a lock may end its waiting for lack of permission.
        false => error,
    }
}

pub(super) struct MemberConnection<C: ClusterClient>(C::Connection);

impl<C: ClusterClient> Connection for MemberConnection<C> {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        match command.is_asking() {
            true => Either::Left(C::send_asking(&self.0, command)),
            false => Either::Right(self.0.send(command)),
        }
    }
}
