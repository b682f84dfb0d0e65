//! Opens a connection: everything from the address to the end of the handshake.

use std::error::Error;
use std::io;
#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select, select_ok};
use lock_core::NodeError;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::Address;
use crate::convert::reply;
use crate::dial_error::{DialError, Stage};
use crate::exchange::server_error_of;
use crate::link::QUEUE;
use crate::peer::{expects_plain_text, expects_tls, secure};
use crate::rt::{Driver, Instant, Runtime, Socket, after};
use crate::wire::Wire;

/// When a quiet connection is probed, and how often from then on: soon enough that a peer that
/// vanished is noticed between two ticks of most jobs, rarely enough to cost nothing.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// How long bytes may stay without a sign from the peer's kernel before ours gives up. It is
/// longer than a replaced connection lingers, whose undos are to arrive if they can.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Where connections come from.
pub(crate) trait Dial: Send + Sync {
    /// Connects, in `within` at most, in a task of this runtime.
    fn dial<'a>(
        &'a self,
        runtime: &'a Runtime,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, NodeError>>;

    /// The same by TLS; `None` if that is not ours to say.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    fn with_tls(&self, _tls: crate::Tls) -> Option<Arc<dyn Dial>> {
        None
    }
}

impl Dial for Address {
    fn dial<'a>(
        &'a self,
        runtime: &'a Runtime,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, NodeError>> {
        Box::pin(dial(runtime, self, within))
    }

    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    fn with_tls(&self, tls: crate::Tls) -> Option<Arc<dyn Dial>> {
        Some(Arc::new(Self::with_tls(self, tls)))
    }
}

/// A connection that is ready, and what has to run for it to work.
pub(crate) struct Dialed {
    pub(crate) connection: Wire,
    /// `None` if redis-rs runs it.
    pub(crate) driver: Option<Driver>,
}

type Opened = (MultiplexedConnection, Option<Driver>);

/// redis-rs's own timeout is not used, since it would not say whether the network or the server
/// was too slow.
async fn dial(runtime: &Runtime, address: &Address, within: Duration) -> Result<Dialed, NodeError> {
    let start = Instant::now();
    let mut stage = Stage::Connecting;
    let opened = open(runtime, address, within, &mut stage);
    match runtime.until(after(within), opened).await {
        Some(Ok((connection, driver))) => {
            address.suspicion.dispel();
            Ok(Dialed {
                connection: Wire::Own(connection),
                driver,
            })
        }
        Some(Err(DialError::Redis(error))) if stage == Stage::Greeting => {
            // Not for long: a server that understands neither stays silent.
            let patience = within.saturating_sub(start.elapsed()).min(within / 4);
            let why = why_broken_off(runtime, address, &error);
            match runtime.until(after(patience), why).await.flatten() {
                Some(why) => Err(cannot_connect(why)),
                None => Err(cannot_connect(DialError::Redis(error))),
            }
        }
        Some(Err(error)) => Err(cannot_connect(error)),
        None => Err(cannot_connect(DialError::Late(stage, within))),
    }
}

pub(crate) fn cannot_connect(cause: impl Into<Box<dyn Error + Send + Sync>>) -> NodeError {
    NodeError::not_sent("cannot connect").with_source(cause)
}

async fn open(
    runtime: &Runtime,
    address: &Address,
    within: Duration,
    stage: &mut Stage,
) -> Result<Opened, DialError> {
    let error = match connect(runtime, address, within, stage).await {
        Err(DialError::Redis(error)) if error.kind() == ErrorKind::AuthenticationFailed => error,
        opened => return opened,
    };
    Err(match why_refused(runtime, address, within).await {
        Some(answer) => DialError::Answer(answer),
        None => DialError::Redis(error),
    })
}

/// What the server says to the password. redis-rs keeps it to itself when it logs in over RESP2,
/// so it is asked once more, on a connection of its own.
async fn why_refused(runtime: &Runtime, address: &Address, within: Duration) -> Option<NodeError> {
    let info = address.client.get_connection_info();
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let nobody = Client::open(info.clone().set_redis_settings(nobody)).ok()?;
    let nobody = Address::new(nobody, address.tls.clone());
    let mut stage = Stage::Connecting;
    let (mut connection, driver) = connect(runtime, &nobody, within, &mut stage).await.ok()?;

    let mut login = redis::cmd("AUTH");
    login.arg(info.redis_settings().username());
    login.arg(info.redis_settings().password());
    let answer = connection.req_packed_command(&login);
    let answer = match driver {
        None => answer.await,
        Some(driver) => match select(answer, driver).await {
            Either::Left((answer, _)) => answer,
            // The connection broke, as the answer tells.
            Either::Right(((), answer)) => answer.await,
        },
    };
    match answer {
        Ok(value) => reply(value).err(),
        Err(error) => server_error_of(error).ok(),
    }
}

async fn connect(
    runtime: &Runtime,
    address: &Address,
    within: Duration,
    stage: &mut Stage,
) -> Result<Opened, DialError> {
    let info = address.client.get_connection_info();
    let settings = info.redis_settings();
    match (info.addr(), &address.tls) {
        (ConnectionAddr::Tcp(host, port), None) => {
            let stream = open_tcp(runtime, host, *port, info.tcp_settings()).await?;
            *stage = Stage::Greeting;
            greet(settings, stream).await
        }
        (ConnectionAddr::Tcp(host, port), Some(tls)) => {
            let stream = open_tcp(runtime, host, *port, info.tcp_settings()).await?;
            *stage = Stage::SecuringTls;
            let asks = expects_plain_text(&address.suspicion, reconnect(runtime, address));
            let secured = secure(
                tls.handshake(host, stream),
                runtime.sleep_until(after(within / 4)),
                asks,
            )
            .await?;
            *stage = Stage::Greeting;
            greet(settings, secured).await
        }
        #[cfg(unix)]
        (ConnectionAddr::Unix(path), _) => {
            let stream = runtime.connect_unix(path).await?;
            *stage = Stage::Greeting;
            greet(settings, stream).await
        }
        // TLS of a client that somebody handed in, of which redis-rs keeps the certificates to
        // itself.
        _ => {
            *stage = Stage::Elsewhere;
            let tcp = completed(info.tcp_settings());
            let client = Client::open(info.clone().set_tcp_settings(tcp))?;
            let config = config();
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            Ok((connection.await?, None))
        }
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        // Calls have deadlines of their own.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
}

/// Makes a connection of a stream. Its driver is ours, so that a connection that the server closes
/// while nobody calls is known to be gone: else the first call after an idle timeout of the server
/// would fail, on all nodes of a lock at once.
async fn greet<S>(settings: &RedisConnectionInfo, stream: S) -> Result<Opened, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (connection, driver) =
        MultiplexedConnection::new_with_config(settings, stream, config()).await?;
    Ok((connection, Some(Box::pin(driver))))
}

/// Why the server broke off before it answered, if that has to do with TLS.
async fn why_broken_off(
    runtime: &Runtime,
    address: &Address,
    error: &RedisError,
) -> Option<DialError> {
    let Some(tls) = &address.tls else {
        let it_is = expects_tls(&address.suspicion, reconnect(runtime, address)).await;
        return it_is.then(|| DialError::ExpectsTls(Box::new(error.clone().into())));
    };
    let ConnectionAddr::Tcp(host, _) = address.client.get_connection_info().addr() else {
        return None;
    };
    let objection = tls
        .objection(host, reconnect(runtime, address).await?)
        .await?;
    Some(objection.into())
}

/// A connection to ask the server what it speaks.
async fn reconnect(runtime: &Runtime, address: &Address) -> Option<Socket> {
    let info = address.client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => open_tcp(runtime, host, *port, info.tcp_settings())
            .await
            .ok(),
        _ => None,
    }
}

/// Connects to whichever address of the host answers first.
async fn open_tcp(
    runtime: &Runtime,
    host: &str,
    port: u16,
    settings: &TcpSettings,
) -> Result<Socket, DialError> {
    let addresses = runtime.look_up(host, port).await?;
    if addresses.is_empty() {
        return Err(DialError::NoAddress);
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(runtime.connect_tcp(address)));
    let (socket, _others) = select_ok(attempts).await?;
    apply(settings, &socket)?;
    Ok(socket)
}

/// What the user chose, and our own choice in place of the defaults of redis-rs.
///
/// TCP_NODELAY is on. Without it the kernel holds a small command back while an earlier one of the same
/// connection is not acknowledged: on a network a call that starts while others wait for their answers
/// is late by up to one round trip. redis-rs has it off by default, and its settings do not tell whether
/// a client chose that, so it is switched on for every client.
fn completed(settings: &TcpSettings) -> TcpSettings {
    let mut completed = settings.clone().set_nodelay(true);
    if completed.keepalive().is_none() {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY);
        completed = completed.set_keepalive(keepalive);
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    if completed.user_timeout().is_none() {
        completed = completed.set_user_timeout(UNACKNOWLEDGED);
    }
    completed
}

fn apply(settings: &TcpSettings, socket: &Socket) -> io::Result<()> {
    let settings = completed(settings);
    let socket = socket.as_ref();
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_command_is_held_back_for_the_acknowledgement_of_another() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let runtime = Runtime::current().unwrap();
        for settings in [
            TcpSettings::default(),
            TcpSettings::default().set_nodelay(false),
        ] {
            let socket = open_tcp(&runtime, "127.0.0.1", port, &settings);
            assert!(socket.await.unwrap().as_ref().tcp_nodelay().unwrap());
        }
    }
}
