//! A connection in use: how commands are sent on it, and how it ends.

use std::future::Future;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::ConnectHandle;
use futures::FutureExt;
use lock_core::backend::Connection;
use lock_core::{Command, NodeError, Reply};

use crate::convert::{cause, encode, reply, server_error};

/// What commands are sent on: a fred client that is connected, and never reconnects.
pub(crate) struct FredConnection(pub(crate) Client);

impl Connection for FredConnection {
    /// The command is in fred's queue after the first poll. The future may be dropped at any time:
    /// fred keeps what it needs to pair replies with commands.
    ///
    /// fred sets no timeout: the client never reconnects, so a command that was given up leaves on
    /// this connection, before the release that belongs behind it, or not at all.
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (client, encoded) = (self.0.clone(), command.encoded(encode));
        async move {
            let (command, args) = (encoded.command.clone(), encoded.args.clone());
            reply(client.custom_raw(command, args).await.map_err(broken)?)
        }
    }
}

/// fred has given the connection up, and does not say whether a command was sent.
pub(crate) fn broken(error: Error) -> NodeError {
    let broken = NodeError::connection("the connection broke");
    // fred takes some answers for the end of the connection.
    match server_error(&error) {
        Some(answer) => broken.with_source(answer),
        None => broken.with_source(cause(error)),
    }
}

/// A fred client and the task that reads and writes for it, which end with this.
pub(crate) struct Session {
    pub(crate) client: Client,
    router: ConnectHandle,
}

impl Session {
    /// Has the client connect.
    pub(crate) fn start(client: Client) -> Self {
        let router = client.connect();
        Self { client, router }
    }

    /// fred's task, as long as it has not been seen to end.
    pub(crate) fn router(&mut self) -> &mut ConnectHandle {
        &mut self.router
    }

    pub(crate) fn connection(&self) -> FredConnection {
        FredConnection(self.client.clone())
    }

    /// Ends when the connection breaks, and says why. Dropping it closes the connection.
    pub(crate) async fn broken(mut self) -> NodeError {
        match self.router().await {
            Ok(Err(why)) => broken(why),
            Ok(Ok(())) | Err(_) => NodeError::connection("the connection broke"),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.router.is_finished() {
            // The first poll tells whatever else runs for the client, such as the renewal of its
            // credentials, to stop. Its own task would go on for ever: it holds the client, too.
            drop(self.client.quit().now_or_never());
            self.router.abort();
        }
    }
}
