//! Opens a connection: everything from the address to the end of the handshake.

use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::ConnectHandle;
use futures::FutureExt;
use futures::future::{Either, select};
use lock_core::NodeError;
use lock_core::node::NodeErrorKind;
use tokio::task::{AbortHandle, JoinError};
use tokio::time::{Instant, sleep, timeout};

use crate::convert::{cause, server_error};
use crate::peer::{diagnose, expects_plain_text, no_tls};
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
    let start = Instant::now();
    match timeout(within, open_or_doubt(settings, within)).await {
        Ok(Ok(dialed)) => {
            settings.suspicion().dispel();
            Ok(dialed)
        }
        // Without a cause it is the runtime that is at fault, not the server.
        Ok(Err(error)) if error.kind() == NodeErrorKind::NotSent && error.source().is_some() => {
            // Not for long: a server that understands neither stays silent.
            let patience = within.saturating_sub(start.elapsed()).min(within / 4);
            let diagnosis = timeout(patience, diagnose(settings, error.clone()));
            Err(diagnosis.await.unwrap_or(error))
        }
        Ok(Err(answer)) => Err(answer),
        Err(_) => {
            let late = format!("not connected in {within:?}, the handshake included");
            Err(NodeError::not_sent("cannot connect").with_source(late))
        }
    }
}

/// Connects. If TLS takes long, the server is asked whether it expects plain text.
async fn open_or_doubt(settings: &Settings, within: Duration) -> Result<Dialed, NodeError> {
    let opened = pin!(open(settings.client()));
    if !settings.uses_tls() {
        return opened.await;
    }
    let doubt = pin!(async {
        sleep(within / 4).await;
        expects_plain_text(settings).await
    });
    match select(opened, doubt).await {
        Either::Left((opened, _)) => opened,
        Either::Right((true, _)) => Err(no_tls()),
        Either::Right((false, opened)) => opened.await,
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
