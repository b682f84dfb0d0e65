//! Opens a connection: everything from the address to the end of the handshake.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use lock_core::NodeError;
use lock_core::backend::{Client, Credentials, MAX_PENDING, Opened, Protocol};
use lock_core::node::NodeErrorKind;
use lock_core::runtime::ambient;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::Address;
use crate::checked::{Checked, Heard};
use crate::connection::Own;
use crate::dial_error::{DialError, Stage, cannot_connect};
use crate::limit::within;
use crate::network::{Network, Socket, completed, runs_the_last_woken_first};
use crate::peer::{expects, secure};

/// Moves the bytes of a connection, up to its end.
pub(crate) type Driver = BoxFuture<'static, NodeError>;

pub(crate) type Dialed = (Own, Driver);

impl Client for Address {
    type Connection = Own;

    fn label(&self) -> &str {
        &self.label
    }

    async fn connect(&self, limit: Duration) -> Result<Opened<Own>, NodeError> {
        if let Some(sentinels) = &self.sentinels {
            return sentinels.connect(self, limit).await;
        }
        let (connection, driver) = dialed(self, limit).await?;
        Ok(Opened::new(connection, driver))
    }

    fn prefer_another_address(&self) {
        self.addresses.prefer_another();
    }
}

pub(crate) async fn dialed(address: &Address, limit: Duration) -> Result<Dialed, NodeError> {
    let network = Network::current()?;
    if address.asks() {
        dial_as_asked(network, address, limit).await
    } else {
        dial(network, address, limit).await
    }
}

/// With what is to be asked for first.
async fn dial_as_asked(
    network: Network,
    address: &Address,
    limit: Duration,
) -> Result<Dialed, NodeError> {
    let runtime = ambient();
    let end = runtime.now().saturating_add(limit);
    let late = || cannot_connect(DialError::Late(Stage::Asking, limit));
    let address = within(limit, address.asked()).await.ok_or_else(late)??;
    let limit = end.saturating_sub(runtime.now());
    let dialed = dial(network, &address, limit).await;
    match address.credentials_at_connect {
        Some(_) => dialed.map_err(Credentials::refused),
        None => dialed,
    }
}

/// redis-rs's own timeout is not used, since it would not say whether the network or the server
/// was too slow.
async fn dial(network: Network, address: &Address, limit: Duration) -> Result<Dialed, NodeError> {
    let runtime = ambient();
    let end = runtime.now().saturating_add(limit);
    let mut stage = Stage::Connecting;
    let opened = open(network, address, limit, &mut stage);
    match within(limit, opened).await {
        Some(Ok(dialed)) => {
            address.probe.understood();
            Ok(dialed)
        }
        Some(Err(DialError::Redis(error))) if stage == Stage::Greeting => {
            // Not for long: a server that understands neither stays silent.
            let patience = end.saturating_sub(runtime.now()).min(limit / 4);
            let why = why_broken_off(network, address, &error);
            match within(patience, why).await.flatten() {
                Some(why) => Err(cannot_connect(why)),
                None if error.is_connection_dropped() => {
                    Err(cannot_connect(DialError::HungUp(error)))
                }
                None => Err(cannot_connect(DialError::Redis(error))),
            }
        }
        // An answer is told as one: a lock may end its waiting for lack of permission.
        Some(Err(DialError::Answer(answer))) => Err(answer),
        Some(Err(error)) => Err(cannot_connect(error)),
        None => Err(cannot_connect(DialError::Late(stage, limit))),
    }
}

async fn open(
    network: Network,
    address: &Address,
    limit: Duration,
    stage: &mut Stage,
) -> Result<Dialed, DialError> {
    let error = match connect(network, address, limit, stage).await {
        Err(DialError::Redis(error)) if error.kind() == ErrorKind::AuthenticationFailed => error,
        opened => return opened,
    };
    Err(match why_refused(network, address, limit).await {
        Some(answer) => DialError::Answer(answer),
        None => DialError::Redis(error),
    })
}

/// What the server says to the password. redis-rs keeps it to itself when it logs in over RESP2. Where
/// it also does TLS, the server is asked once more, on a connection of its own.
async fn why_refused(network: Network, address: &Address, limit: Duration) -> Option<NodeError> {
    let info = address.client.get_connection_info();
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let nobody = redis::Client::open(info.clone().set_redis_settings(nobody)).ok()?;
    let nobody = Address {
        client: nobody,
        ..address.clone()
    };
    let mut stage = Stage::Connecting;
    let (connection, driver) = connect(network, &nobody, limit, &mut stage).await.ok()?;

    let mut login = redis::cmd("AUTH");
    login.arg(info.redis_settings().username());
    login.arg(info.redis_settings().password());
    let answer = pin!(connection.request(Arc::new(login), false));
    let answer = match select(answer, driver).await {
        Either::Left((answer, _)) => answer,
        // The connection broke, as the answer tells.
        Either::Right((_, answer)) => answer.await,
    };
    answer
        .err()
        .filter(|error| error.kind() == NodeErrorKind::Server)
}

async fn connect(
    network: Network,
    address: &Address,
    limit: Duration,
    stage: &mut Stage,
) -> Result<Dialed, DialError> {
    let info = address.client.get_connection_info();
    match (info.addr(), &address.tls) {
        (ConnectionAddr::Tcp(host, port), None) => {
            let stream = open_tcp(network, address, host, *port).await?;
            *stage = Stage::Greeting;
            greet(address, stream).await
        }
        (ConnectionAddr::Tcp(host, port), Some(tls)) => {
            let stream = open_tcp(network, address, host, *port).await?;
            *stage = Stage::SecuringTls;
            let asks = expects(
                &address.probe,
                Protocol::PlainText,
                reconnect(network, address),
            );
            let secured = secure(
                tls.handshake(host, stream),
                ambient().sleep(limit / 4),
                asks,
            )
            .await?;
            *stage = Stage::Greeting;
            greet(address, secured).await
        }
        #[cfg(unix)]
        (ConnectionAddr::Unix(path), _) => {
            let stream = network.connect_unix(path).await?;
            *stage = Stage::Greeting;
            greet(address, stream).await
        }
        // TLS of a client that somebody handed in, of which redis-rs keeps the certificates to
        // itself.
        _ => {
            *stage = Stage::Elsewhere;
            let tcp = completed(info.tcp_settings());
            let client = redis::Client::open(info.clone().set_tcp_settings(tcp))?;
            let config = config(address);
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            // redis-rs runs it, and does not tell when it ends.
            Ok((
                Own::new(connection.await?, Heard::default()),
                Box::pin(pending()),
            ))
        }
    }
}

fn config(address: &Address) -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new()
        // Calls have deadlines of their own.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(MAX_PENDING);
    match &address.listener {
        Some(listener) => config.set_push_sender(Arc::clone(listener)),
        None => config,
    }
}

/// Makes a connection of a stream. Its driver is ours, so that a connection that the server closes
/// while nobody calls is known to be gone: else the first call after an idle timeout of the server
/// would fail, on all nodes of a lock at once.
async fn greet<S>(address: &Address, stream: S) -> Result<Dialed, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let heard = Heard::default();
    let checked = Checked::new(stream, heard.clone());
    let (info, config) = (address.client.get_connection_info(), config(address));
    let settings = info.redis_settings();
    let greeted = MultiplexedConnection::new_with_config(settings, checked, config).await;
    let (connection, driver) = greeted.map_err(|error| match heard.error() {
        // redis-rs tells some of it in words of its own, and of a server that hangs up only that.
        Some(error) => DialError::Answer(NodeError::server(error)),
        None => error.into(),
    })?;
    heard.is_up();
    let own = Own::new(connection, heard.clone());
    let driver = async move {
        giving_way(driver).await;
        // Calls in flight are told the cause by redis-rs.
        let broke = NodeError::connection("the connection broke");
        match heard.garbage() {
            Some(garbage) => broke.with_source(garbage),
            None => broke,
        }
    };
    Ok((own, Box::pin(driver)))
}

/// Lets callers that are ready to send do so before the driver writes.
///
/// Tokio's multi-thread runtime runs the task that was woken last before all others, so that the driver
/// would write each command by itself. On a current-thread runtime it comes last anyway.
async fn giving_way(driver: impl Future<Output = ()>) {
    let mut driver = pin!(driver);
    let gives_way = runs_the_last_woken_first();
    let mut has_given_way = false;
    poll_fn(|cx| {
        if gives_way && !std::mem::replace(&mut has_given_way, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        has_given_way = false;
        driver.as_mut().poll(cx)
    })
    .await;
}

/// Why the server broke off before it answered, if that has to do with TLS.
async fn why_broken_off(
    network: Network,
    address: &Address,
    error: &RedisError,
) -> Option<DialError> {
    let Some(tls) = &address.tls else {
        let it_is = expects(&address.probe, Protocol::Tls, reconnect(network, address)).await;
        return it_is.then(|| DialError::ExpectsTls(Box::new(error.clone().into())));
    };
    let ConnectionAddr::Tcp(host, _) = address.client.get_connection_info().addr() else {
        return None;
    };
    let objection = tls
        .objection(host, reconnect(network, address).await?)
        .await?;
    Some(objection.into())
}

/// A connection to ask the server what it speaks.
async fn reconnect(network: Network, address: &Address) -> Option<Socket> {
    let info = address.client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => open_tcp(network, address, host, *port).await.ok(),
        _ => None,
    }
}

async fn open_tcp(
    network: Network,
    address: &Address,
    host: &str,
    port: u16,
) -> io::Result<Socket> {
    let settings = address.client.get_connection_info().tcp_settings();
    let connect = |address| network.connect_tcp(address, settings);
    address.addresses.connect(host, port, connect).await
}
