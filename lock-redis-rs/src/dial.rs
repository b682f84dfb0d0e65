//! Opens a connection: everything from the address to the end of the handshake.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select, select_ok};
use lock_core::NodeError;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::convert::reply;
use crate::exchange::server_error_of;
use crate::link::QUEUE;
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
}

impl Dial for Client {
    fn dial(&self, within: Duration) -> BoxFuture<'_, Result<Dialed, NodeError>> {
        Box::pin(dial(self, within))
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

/// Why there is no connection. Nothing was sent but the handshake.
#[derive(Debug)]
enum DialError {
    Io(io::Error),
    Redis(RedisError),
    /// What the server answered to the handshake.
    Answer(NodeError),
    NoAddress,
    NotConnected(Duration),
    NoHandshake(Duration),
}

/// redis-rs's own timeout is not used, since it would not say whether the network or the server
/// was too slow.
async fn dial(client: &Client, within: Duration) -> Result<Dialed, NodeError> {
    let mut connected = false;
    match timeout(within, open(client, &mut connected)).await {
        Ok(Ok((connection, driver))) => Ok(Dialed {
            connection: Wire::Own(connection),
            driver,
        }),
        Ok(Err(error)) => Err(cannot_connect(error)),
        Err(_) if connected => Err(cannot_connect(DialError::NoHandshake(within))),
        Err(_) => Err(cannot_connect(DialError::NotConnected(within))),
    }
}

pub(crate) fn cannot_connect(cause: impl Into<Box<dyn Error + Send + Sync>>) -> NodeError {
    NodeError::not_sent("cannot connect").with_source(cause)
}

async fn open(client: &Client, connected: &mut bool) -> Result<Opened, DialError> {
    let error = match connect(client, connected).await {
        Err(DialError::Redis(error)) if error.kind() == ErrorKind::AuthenticationFailed => error,
        opened => return opened,
    };
    Err(match why_refused(client).await {
        Some(answer) => DialError::Answer(answer),
        None => DialError::Redis(error),
    })
}

/// What the server says to the password. redis-rs keeps it to itself when it logs in over RESP2,
/// so it is asked once more, on a connection of its own.
async fn why_refused(client: &Client) -> Option<NodeError> {
    let info = client.get_connection_info();
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let nobody = Client::open(info.clone().set_redis_settings(nobody)).ok()?;
    let (mut connection, driver) = connect(&nobody, &mut false).await.ok()?;

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

async fn connect(client: &Client, connected: &mut bool) -> Result<Opened, DialError> {
    let info = client.get_connection_info();
    let config = AsyncConnectionConfig::new()
        // Calls have deadlines of their own.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let settings = info.redis_settings();
    // The driver is ours for TCP and unix sockets, so that a connection that the server closes
    // while nobody calls is known to be gone: else the first call after an idle timeout of the
    // server would fail, on all nodes of a lock at once.
    Ok(match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = open_tcp(host, *port, info.tcp_settings()).await?;
            *connected = true;
            let dialed = MultiplexedConnection::new_with_config(settings, stream, config).await?;
            (dialed.0, Some(Box::pin(dialed.1)))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await?;
            *connected = true;
            let dialed = MultiplexedConnection::new_with_config(settings, stream, config).await?;
            (dialed.0, Some(Box::pin(dialed.1)))
        }
        _ => {
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            (connection.await?, None)
        }
    })
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

/// Sets what the user chose, and our own choice in place of the defaults of redis-rs.
fn apply(settings: &TcpSettings, stream: &TcpStream) -> io::Result<()> {
    // TCP_NODELAY stays off, as redis-rs has it by default. Measured on loopback with pairs of SET
    // and EVALSHA, medians of twelve rounds in turns: with 64 tasks on a multi-thread runtime
    // 83,500 pairs/s without it and 60,400 with it, since the kernel joins what piles up while an
    // answer is awaited; on a current-thread runtime, and with four tasks or one, no difference
    // that stands out of the noise. The price, on a network: a call that starts while others wait
    // for their answers may wait for up to one round trip. A client's own choice is kept.
    stream.set_nodelay(settings.nodelay())?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(settings.keepalive().unwrap_or(&keepalive))?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(settings.user_timeout().unwrap_or(UNACKNOWLEDGED)))?;
    Ok(())
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<RedisError> for DialError {
    fn from(error: RedisError) -> Self {
        // With its code, which redis-rs does not always show.
        match server_error_of(error) {
            Ok(answer) => Self::Answer(answer),
            Err(error) => Self::Redis(error),
        }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Redis(error) => error.fmt(f),
            Self::Answer(error) => error.fmt(f),
            Self::NoAddress => f.write_str("the host has no address"),
            Self::NotConnected(within) => write!(f, "not connected in {within:?}"),
            Self::NoHandshake(within) => {
                write!(f, "connected, but no answer to the handshake in {within:?}")
            }
        }
    }
}

impl Error for DialError {}
