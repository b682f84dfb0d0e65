//! The client that the keeper of connections stands on, and its connections.

use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};

use lock_core::backend::{Client, Connection, Opened};
use lock_core::node::{Command, NodeError, Reply};

use super::EndpointId;
use super::connect::Line;
use crate::sim::shared::Shared;

/// The counterpart of a Redis client: it connects to one server over the simulated network.
pub(crate) struct NetworkClient {
    shared: Arc<Shared>,
    id: EndpointId,
    label: String,
}

impl NetworkClient {
    pub(crate) fn new(shared: &Arc<Shared>, id: EndpointId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            label: format!("node-{}", id.server.0),
        }
    }
}

impl Client for NetworkClient {
    type Connection = Wire;

    fn label(&self) -> &str {
        &self.label
    }

    async fn connect(&self, _within: Duration) -> Result<Opened<Wire>, NodeError> {
        let dial = self.shared.world().dial(self.id);
        let Ok(line) = dial.await else {
            return pending().await;
        };
        let Line { link, broken } = line?;
        let wire = Wire {
            shared: Arc::clone(&self.shared),
            link,
        };
        let end = End {
            shared: Arc::clone(&self.shared),
            link,
        };
        Ok(Opened::new(wire, async move {
            let end = end;
            let mut broken = broken;
            let why = poll_fn(|cx| {
                end.shared.world().drive(end.link);
                broken.poll_unpin(cx)
            });
            match why.await {
                Ok(why) => why,
                Err(_) => pending().await,
            }
        }))
    }
}

/// A connection.
pub(crate) struct Wire {
    shared: Arc<Shared>,
    link: usize,
}

impl Connection for Wire {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (shared, link, command) = (Arc::clone(&self.shared), self.link, command.clone());
        async move {
            let answer = shared.world().write(link, &command)?;
            let stalled = shared.world().stalled(link);
            let answer = match stalled {
                None => answer.await,
                // Its keeper, which watches the deadlines, stands still too.
                Some((client, patience)) => {
                    match select(answer, shared.sleep(client, patience)).await {
                        Either::Left((answer, _)) => answer,
                        Either::Right(_) => return Err(NodeError::no_answer(patience)),
                    }
                }
            };
            match answer {
                Ok(answer) => answer,
                // The simulation has ended.
                Err(_) => pending().await,
            }
        }
    }
}

/// Closes the connection with its driver.
struct End {
    shared: Arc<Shared>,
    link: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.world().close(self.link);
    }
}
