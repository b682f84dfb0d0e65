//! Finds ports to listen on.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The ports of servers, below the range from which the usual systems take those of outgoing
/// connections.
///
/// A port from that range, such as `bind` chooses, could go to any connection of this host while the
/// server is down, and the server could not come back. A client that keeps trying to reconnect could
/// even be connected to itself.
const OF_SERVERS: Range<u64> = 10_000..25_000;

/// The ports of proxies. A test that starts a server sends requests to its port. If the proxy of
/// another process had just taken that port, it would count requests that its own clients did not
/// send.
const OF_PROXIES: Range<u64> = 25_000..32_000;

/// Processes start at random ports; within a process no port comes twice.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0) >> 1));

/// Returns a port on the loopback interface for a server, on which nothing listens at the moment.
pub(super) fn free_port() -> io::Result<u16> {
    free_port_of(OF_SERVERS)
}

fn free_port_of(range: Range<u64>) -> io::Result<u16> {
    let count = range.end - range.start;
    for _ in 0..count {
        let candidate = range.start + NEXT.fetch_add(1, Ordering::Relaxed) % count;
        let port = u16::try_from(candidate).map_err(io::Error::other)?;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_listener) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// For how long another process that looks for a free port may try this one.
const RETRY_FOR: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_millis(3);

/// How often another port is tried when another process was faster.
const TRIES: u32 = 20;

/// Listens as a proxy on a free port of the loopback interface.
pub(crate) fn listen() -> io::Result<TcpListener> {
    let mut tries = 1;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, free_port_of(OF_PROXIES)?)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

/// Listens again on a port that was given up. Connections that linger there do no harm, since the
/// library sets `SO_REUSEADDR`.
pub(crate) fn listen_again(addr: SocketAddr) -> io::Result<TcpListener> {
    let start = Instant::now();
    loop {
        match TcpListener::bind(addr) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < RETRY_FOR =>
            {
                thread::sleep(RETRY_AFTER);
            }
            result => return result,
        }
    }
}
