//! Opens a connection: everything from the address to the end of the handshake.

use std::fmt;
use std::io;
use std::time::Duration;

use futures::future::{Either, select, select_ok};
use lock_core::NodeError;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError,
};

use crate::convert::reply;
use crate::exchange::server_error_of;
use crate::link::QUEUE;
use crate::rt::{Driver, Runtime, Socket, after};

/// When a quiet connection is probed, and how often from then on: soon enough that a peer that
/// vanished is noticed between two ticks of most jobs, rarely enough to cost nothing.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// How long bytes may stay without a sign from the peer's kernel before ours gives up. It is
/// longer than a replaced connection lingers, whose undos are to arrive if they can.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// A connection that is ready, and what has to run for it to work.
pub(crate) struct Dialed {
    pub(crate) connection: MultiplexedConnection,
    /// `None` if redis-rs runs it.
    pub(crate) driver: Option<Driver>,
}

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

/// Connects, in `within` at most: redis-rs's own timeout is not used, since it would not say
/// whether the network or the server was too slow.
pub(crate) async fn dial(
    runtime: &Runtime,
    client: &Client,
    within: Duration,
) -> Result<Dialed, NodeError> {
    let mut connected = false;
    let opened = open(runtime, client, &mut connected);
    let dialed = match runtime.until(after(within), opened).await {
        Some(dialed) => dialed,
        None if connected => Err(DialError::NoHandshake(within)),
        None => Err(DialError::NotConnected(within)),
    };
    dialed.map_err(|error| NodeError::not_sent("cannot connect").with_source(error))
}

async fn open(
    runtime: &Runtime,
    client: &Client,
    connected: &mut bool,
) -> Result<Dialed, DialError> {
    let error = match connect(runtime, client, connected).await {
        Err(DialError::Redis(error)) if error.kind() == ErrorKind::AuthenticationFailed => error,
        opened => return opened,
    };
    Err(match why_refused(runtime, client).await {
        Some(answer) => DialError::Answer(answer),
        None => DialError::Redis(error),
    })
}

/// What the server says to the password. redis-rs keeps it to itself when it logs in over RESP2,
/// so it is asked once more, on a connection of its own.
async fn why_refused(runtime: &Runtime, client: &Client) -> Option<NodeError> {
    let info = client.get_connection_info();
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let nobody = Client::open(info.clone().set_redis_settings(nobody)).ok()?;
    let mut dialed = connect(runtime, &nobody, &mut false).await.ok()?;

    let mut login = redis::cmd("AUTH");
    login.arg(info.redis_settings().username());
    login.arg(info.redis_settings().password());
    let answer = dialed.connection.req_packed_command(&login);
    let answer = match dialed.driver {
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
    client: &Client,
    connected: &mut bool,
) -> Result<Dialed, DialError> {
    let info = client.get_connection_info();
    let config = AsyncConnectionConfig::new()
        // Calls have deadlines of their own.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let socket = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            open_tcp(runtime, host, *port, info.tcp_settings()).await?
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => runtime.connect_unix(path).await?,
        _ => {
            // redis-rs runs the connection, on the runtime that it finds in this task.
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            return Ok(Dialed {
                connection: connection.await?,
                driver: None,
            });
        }
    };
    *connected = true;
    // The driver is ours, so that a connection that the server closes while nobody calls is known
    // to be gone: else the first call after an idle timeout of the server would fail, on all nodes
    // of a lock at once.
    let (connection, driver) = socket.greet(info.redis_settings(), config).await?;
    Ok(Dialed {
        connection,
        driver: Some(driver),
    })
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

/// Sets what the user chose, and our own choice in place of the defaults of redis-rs.
fn apply(settings: &TcpSettings, socket: &Socket) -> io::Result<()> {
    // TCP_NODELAY stays off, as redis-rs has it by default. Measured on loopback with pairs of SET
    // and EVALSHA, medians of twelve rounds in turns: with 64 tasks on a multi-thread runtime
    // 83,500 pairs/s without it and 60,400 with it, since the kernel joins what piles up while an
    // answer is awaited; on a current-thread runtime, and with four tasks or one, no difference
    // that stands out of the noise. The price, on a network: a call that starts while others wait
    // for their answers may wait for up to one round trip. A client's own choice is kept.
    let socket = socket.as_ref();
    socket.set_tcp_nodelay(settings.nodelay())?;
    let keepalive = TcpKeepalive::new()
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

impl std::error::Error for DialError {}
