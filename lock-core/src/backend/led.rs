//! What it takes to be led to a server by others, and to ask those.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};

use super::client::{Client, Opened};
use crate::display::Ms;
use crate::node::{NodeError, NodeErrorKind, Reply};
use crate::runtime::ambient;

/// A [`Client`] that can be led to the address of another server, and that can ask a server where that is.
pub trait LedClient: Client + Clone {
    /// The same for the server at this address: with the credentials and the TLS of this one, which it
    /// connects to by itself. `host` is an address or a name.
    #[must_use]
    fn at(&self, host: &str, port: u16) -> Self;

    /// Sends these words as one command, and waits for its reply.
    fn ask(
        connection: &Self::Connection,
        words: &[&str],
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static;
}

/// Sends a command over a connection that nobody else uses yet.
pub(super) async fn asked<C: LedClient>(
    opened: &mut Opened<C::Connection>,
    words: &[&str],
    within: Duration,
) -> Result<Reply, NodeError> {
    let answer = C::ask(&opened.connection, words);
    let ended = select(&mut opened.driver, ambient().sleep(within));
    let answer = match select(pin!(answer), ended).await {
        Either::Left((answer, _)) => answer,
        Either::Right((Either::Left((why, _)), _)) => Err(why),
        Either::Right(_) => {
            let late = format!("no answer to {} in {}", words[0], Ms(within));
            Err(NodeError::not_sent(late))
        }
    };
    answer.map_err(|error| match error.kind() {
        NodeErrorKind::Server | NodeErrorKind::NotSent => error,
        // No command of a lock has left.
        _ => NodeError::not_sent("cannot connect").with_source(error),
    })
}
