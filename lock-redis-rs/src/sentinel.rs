//! What a node needs to be led to a master by sentinels.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use lock_core::backend::{
    Addresses, InvalidSentinels, LedClient, ProtocolProbe, SentinelClient, Sentinels,
};
use lock_core::{NodeError, Reply};
use redis::aio::{AsyncPushSender, SendError};
use redis::{Client, ConnectionAddr, ProtocolVersion, PushInfo, PushKind};

use crate::address::{Address, label};
use crate::connection::Own;
use crate::dial::dialed;
use crate::dial_error::cannot_connect;

/// Who is told of what is published.
pub(crate) struct Listener {
    heard: Box<dyn Fn() + Send + Sync>,
    /// redis-rs tells of the end of a connection that it has opened by itself in no other way.
    ended: Mutex<Option<oneshot::Sender<()>>>,
}

impl AsyncPushSender for Listener {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        match push.kind {
            PushKind::Message => (self.heard)(),
            PushKind::Disconnection => {
                let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                drop(ended.take());
            }
            _ => {}
        }
        Ok(())
    }
}

impl Address {
    /// Led by sentinels from now on, to the master that has the host of this address for its name.
    pub(crate) fn led_by(&self, sentinels: Vec<Self>) -> Result<Self, InvalidSentinels> {
        let info = self.client.get_connection_info();
        let (ConnectionAddr::Tcp(master, _) | ConnectionAddr::TcpTls { host: master, .. }) =
            info.addr()
        else {
            let fault =
                "the master has a unix socket for its address, but is to have its name for a host";
            return Err(InvalidSentinels::new(fault));
        };
        let sentinels = Sentinels::new(master, sentinels)?;
        Ok(Self {
            label: sentinels.label().to_owned(),
            sentinels: Some(sentinels),
            ..self.clone()
        })
    }
}

impl LedClient for Address {
    fn at(&self, host: &str, port: u16) -> Self {
        let info = self.client.get_connection_info();
        let addr = match info.addr().clone() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure,
                tls_params,
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Self {
            label: label(&addr),
            // An address of TCP is never refused.
            client: Client::open(info.clone().set_addr(addr))
                .unwrap_or_else(|_| self.client.clone()),
            // What is known of one server says nothing of another one.
            addresses: Arc::new(Addresses::default()),
            probe: Arc::new(ProtocolProbe::default()),
            sentinels: None,
            ..self.clone()
        }
    }

    fn ask(
        connection: &Own,
        words: &[&str],
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        // Where the slots of a cluster are may take long to say.
        connection.request(Arc::new(command), words == ["CLUSTER", "SLOTS"])
    }
}

impl SentinelClient for Address {
    async fn listen(
        &self,
        channel: &'static str,
        heard: impl Fn() + Send + Sync + 'static,
        within: Duration,
    ) -> Result<BoxFuture<'static, ()>, NodeError> {
        let (sender, ended) = oneshot::channel();
        let listener = Listener {
            heard: Box::new(heard),
            ended: Mutex::new(Some(sender)),
        };
        let info = self.client.get_connection_info();
        // Over RESP2 redis-rs cannot take what is published.
        let settings = info.redis_settings().clone();
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.clone().set_redis_settings(settings));
        let address = Self {
            client: client.map_err(cannot_connect)?,
            listener: Some(Arc::new(listener)),
            ..self.clone()
        };
        let (connection, mut driver) = dialed(&address, within).await?;
        let subscribed = Box::pin(connection.clone().subscribe(channel));
        match select(subscribed, &mut driver).await {
            Either::Left((subscribed, _)) => subscribed?,
            Either::Right((why, _)) => return Err(why),
        }
        Ok(Box::pin(async move {
            select(driver, ended).await;
            // It lasts as long as somebody has it.
            drop(connection);
        }))
    }
}
