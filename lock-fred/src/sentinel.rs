//! What a node needs to be led to a master by sentinels. fred's own way is not used: it reconnects.

use std::sync::Arc;
use std::time::Duration;

use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::{ClusterHash, CustomCommand};
use futures::future::{BoxFuture, select};
use lock_core::backend::{
    Client, InvalidSentinels, LedClient, ProtocolProbe, SentinelClient, Sentinels,
};
use lock_core::{NodeError, Reply};
use tokio::sync::broadcast::error::RecvError;

use crate::client::FredClient;
use crate::connection::{FredConnection, broken};
use crate::convert::reply;

impl FredClient {
    /// Led by sentinels from now on, to the master that has the host of the settings for its name.
    pub(crate) fn led_by(&self, sentinels: Vec<Self>) -> Result<Self, InvalidSentinels> {
        let of_sentinels = |client: &&Self| client.sentinels.is_some();
        if let Some(led) = sentinels.iter().chain([self]).find(of_sentinels) {
            let label = led.label();
            let fault = format!("{label} is not the address of one server, but has sentinels");
            return Err(InvalidSentinels::new(fault));
        }
        let Some((master, _)) = self.settings.host_and_port() else {
            let fault =
                "the master has a unix socket for its address, but is to have its name for a host";
            return Err(InvalidSentinels::new(fault));
        };
        Ok(Self {
            sentinels: Some(Sentinels::new(master, sentinels)?),
            ..self.clone()
        })
    }
}

impl LedClient for FredClient {
    fn at(&self, host: &str, port: u16) -> Self {
        Self {
            settings: Arc::new(self.settings.at(host, port)),
            probe: Arc::new(ProtocolProbe::default()),
            sentinels: None,
            ..self.clone()
        }
    }

    fn ask(
        connection: &FredConnection,
        words: &[&str],
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let client = connection.0.clone();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        async move {
            let mut words = words.into_iter();
            let name = words.next().unwrap_or_default();
            let command = CustomCommand::new(name, ClusterHash::FirstKey, false);
            let answer = client.custom_raw(command, words.collect()).await;
            reply(answer.map_err(broken)?)
        }
    }
}

impl SentinelClient for FredClient {
    async fn listen(
        &self,
        channel: &'static str,
        heard: impl Fn() + Send + Sync + 'static,
        within: Duration,
    ) -> Result<BoxFuture<'static, ()>, NodeError> {
        let session = self.session(within).await?;
        let client = session.client.clone();
        let mut messages = client.message_rx();
        client.subscribe(channel).await.map_err(broken)?;
        Ok(Box::pin(async move {
            let listens = Box::pin(async move {
                while let Ok(_) | Err(RecvError::Lagged(_)) = messages.recv().await {
                    heard();
                }
            });
            select(listens, Box::pin(session.broken())).await;
        }))
    }
}
