//! Opens a connection: everything from the address to the end of the handshake.

use std::pin::pin;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::ConnectHandle;
use futures::FutureExt;
use futures::future::{Either, select};
use lock_core::NodeError;
use tokio::task::{AbortHandle, JoinError};
use tokio::time::timeout;

use crate::convert::{cause, server_error};
use crate::settings::Settings;

/// A client that is connected, and the task that reads and writes for it.
pub(crate) struct Dialed {
    pub(crate) session: Session,
    pub(crate) router: ConnectHandle,
}

/// A client and its connection, which ends with this.
pub(crate) struct Session {
    client: Client,
    router: AbortHandle,
}

impl Session {
    pub(crate) fn client(&self) -> &Client {
        &self.client
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

/// Connects, in `within` at most.
pub(crate) async fn dial(settings: &Settings, within: Duration) -> Result<Dialed, NodeError> {
    match timeout(within, open(settings.client())).await {
        Ok(dialed) => dialed,
        Err(_) => {
            let late = format!("not connected in {within:?}, the handshake included");
            Err(NodeError::not_sent("cannot connect").with_source(late))
        }
    }
}

async fn open(client: Client) -> Result<Dialed, NodeError> {
    let waiter = client.clone();
    let mut connected = pin!(waiter.wait_for_connect());
    // The first poll subscribes, so that no result can be missed.
    if connected.as_mut().now_or_never().is_some() {
        return Err(NodeError::not_sent("cannot connect"));
    }
    let mut router = client.connect();
    let session = Session {
        client,
        router: router.abort_handle(),
    };
    match select(connected, &mut router).await {
        Either::Left((Ok(()), _)) => Ok(Dialed { session, router }),
        Either::Left((Err(error), _)) => Err(refused(error)),
        Either::Right((ended, _)) => Err(cut_off(ended)),
    }
}

/// Nothing was sent but the handshake. If that was answered with an error, the error is told as
/// an answer: a lock may end its waiting for lack of permission.
fn refused(error: Error) -> NodeError {
    server_error(&error)
        .unwrap_or_else(|| NodeError::not_sent("cannot connect").with_source(cause(error)))
}

fn cut_off(ended: Result<Result<(), Error>, JoinError>) -> NodeError {
    match ended {
        Ok(Err(error)) => refused(error),
        Err(error) if error.is_panic() => NodeError::not_sent(
            "fred cannot connect here: it needs a tokio runtime with its timers and IO enabled",
        ),
        Ok(Ok(())) | Err(_) => NodeError::not_sent("the connect was cut off"),
    }
}
