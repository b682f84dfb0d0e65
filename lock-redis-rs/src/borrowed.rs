//! A connection that its owner takes care of.

use std::time::Duration;

use lock_core::{Command, NodeError, Reply};

use crate::connection::Foreign;
use crate::limit::within;
use crate::network::Network;

pub(crate) struct Borrowed {
    pub(crate) label: String,
    pub(crate) connection: Box<dyn Foreign>,
}

impl Borrowed {
    pub(crate) async fn execute(
        &self,
        command: &Command,
        limit: Duration,
    ) -> Result<Reply, NodeError> {
        // A connection with a response timeout of its own would panic where redis-rs has no
        // timers. It knows the runtimes that we know, or more.
        Network::current()?;
        let answer = within(limit, self.connection.send(command)).await;
        answer.unwrap_or_else(|| Err(NodeError::no_answer(limit)))
    }
}
