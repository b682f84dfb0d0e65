//! Opens a connection: everything from the address to the end of the handshake.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select, select_ok};
use lock_core::NodeError;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};

use crate::address::Address;
use crate::convert::reply;
use crate::dial_error::{DialError, Stage};
use crate::exchange::server_error_of;
use crate::link::QUEUE;
use crate::peer::{expects_plain_text, expects_tls, secure};
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
    /// Connects, in `within` at most.
    fn dial(&self, within: Duration) -> BoxFuture<'_, Result<Dialed, NodeError>>;

    /// The same by TLS; `None` if that is not ours to say.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    fn with_tls(&self, _tls: crate::Tls) -> Option<Arc<dyn Dial>> {
        None
    }
}

impl Dial for Address {
    fn dial(&self, within: Duration) -> BoxFuture<'_, Result<Dialed, NodeError>> {
        Box::pin(dial(self, within))
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

pub(crate) type Driver = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

type Opened = (MultiplexedConnection, Option<Driver>);

/// redis-rs's own timeout is not used, since it would not say whether the network or the server
/// was too slow.
async fn dial(address: &Address, within: Duration) -> Result<Dialed, NodeError> {
    let start = Instant::now();
    let mut stage = Stage::Connecting;
    match timeout(within, open(address, within, &mut stage)).await {
        Ok(Ok((connection, driver))) => {
            address.suspicion.dispel();
            Ok(Dialed {
                connection: Wire::Own(connection),
                driver,
            })
        }
        Ok(Err(DialError::Redis(error))) if stage == Stage::Greeting => {
            // Not for long: a server that understands neither stays silent.
            let patience = within.saturating_sub(start.elapsed()).min(within / 4);
            match timeout(patience, why_broken_off(address, &error)).await {
                Ok(Some(why)) => Err(cannot_connect(why)),
                Ok(None) | Err(_) => Err(cannot_connect(DialError::Redis(error))),
            }
        }
        Ok(Err(error)) => Err(cannot_connect(error)),
        Err(_) => Err(cannot_connect(DialError::Late(stage, within))),
    }
}

pub(crate) fn cannot_connect(cause: impl Into<Box<dyn Error + Send + Sync>>) -> NodeError {
    NodeError::not_sent("cannot connect").with_source(cause)
}

async fn open(address: &Address, within: Duration, stage: &mut Stage) -> Result<Opened, DialError> {
    let error = match connect(address, within, stage).await {
        Err(DialError::Redis(error)) if error.kind() == ErrorKind::AuthenticationFailed => error,
        opened => return opened,
    };
    Err(match why_refused(address, within).await {
        Some(answer) => DialError::Answer(answer),
        None => DialError::Redis(error),
    })
}

/// What the server says to the password. redis-rs keeps it to itself when it logs in over RESP2,
/// so it is asked once more, on a connection of its own.
async fn why_refused(address: &Address, within: Duration) -> Option<NodeError> {
    let info = address.client.get_connection_info();
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let nobody = Client::open(info.clone().set_redis_settings(nobody)).ok()?;
    let nobody = Address::new(nobody, address.tls.clone());
    let mut stage = Stage::Connecting;
    let (mut connection, driver) = connect(&nobody, within, &mut stage).await.ok()?;

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
    address: &Address,
    within: Duration,
    stage: &mut Stage,
) -> Result<Opened, DialError> {
    let info = address.client.get_connection_info();
    let settings = info.redis_settings();
    match (info.addr(), &address.tls) {
        (ConnectionAddr::Tcp(host, port), None) => {
            let stream = open_tcp(host, *port, info.tcp_settings()).await?;
            *stage = Stage::Greeting;
            greet(settings, stream).await
        }
        (ConnectionAddr::Tcp(host, port), Some(tls)) => {
            let stream = open_tcp(host, *port, info.tcp_settings()).await?;
            *stage = Stage::SecuringTls;
            let asks = expects_plain_text(&address.suspicion, reconnect(address));
            let secured = secure(tls.handshake(host, stream), sleep(within / 4), asks).await?;
            *stage = Stage::Greeting;
            greet(settings, secured).await
        }
        #[cfg(unix)]
        (ConnectionAddr::Unix(path), _) => {
            let stream = tokio::net::UnixStream::connect(path).await?;
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
async fn why_broken_off(address: &Address, error: &RedisError) -> Option<DialError> {
    let Some(tls) = &address.tls else {
        let it_is = expects_tls(&address.suspicion, reconnect(address)).await;
        return it_is.then(|| DialError::ExpectsTls(Box::new(error.clone().into())));
    };
    let ConnectionAddr::Tcp(host, _) = address.client.get_connection_info().addr() else {
        return None;
    };
    let objection = tls.objection(host, reconnect(address).await?).await?;
    Some(objection.into())
}

/// A connection to ask the server what it speaks.
async fn reconnect(address: &Address) -> Option<TcpStream> {
    let info = address.client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => open_tcp(host, *port, info.tcp_settings()).await.ok(),
        _ => None,
    }
}

/// Connects to whichever address of the host answers first.
async fn open_tcp(host: &str, port: u16, settings: &TcpSettings) -> Result<TcpStream, DialError> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(DialError::NoAddress);
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _others) = select_ok(attempts).await?;
    apply(settings, &stream)?;
    Ok(stream)
}

/// What the user chose, and our own choice in place of the defaults of redis-rs.
///
/// TCP_NODELAY stays off, as redis-rs has it by default. Measured on loopback with pairs of SET
/// and EVALSHA, medians of twelve rounds in turns: with 64 tasks on a multi-thread runtime 83,500
/// pairs/s without it and 60,400 with it, since the kernel joins what piles up while an answer is
/// awaited; on a current-thread runtime, and with four tasks or one, no difference that stands out
/// of the noise. The price, on a network: a call that starts while others wait for their answers
/// may wait for up to one round trip. A client's own choice is kept.
fn completed(settings: &TcpSettings) -> TcpSettings {
    let mut completed = settings.clone();
    if completed.keepalive().is_none() {
        let keepalive = socket2::TcpKeepalive::new()
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

fn apply(settings: &TcpSettings, stream: &TcpStream) -> io::Result<()> {
    let settings = completed(settings);
    stream.set_nodelay(settings.nodelay())?;
    let socket = socket2::SockRef::from(stream);
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}
