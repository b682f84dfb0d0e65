//! Finds ports to listen on.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below the range from which the usual systems take the ports of outgoing connections.
///
/// Were a server's port from that range, as the port that `bind` chooses is, then while the server
/// is down any connection on this host could get it and the server could not come back. A client
/// that keeps trying to reconnect could even be connected with itself.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// Processes start at random places; within a process no port comes twice.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0) % COUNT));

/// A port on the loopback interface that nobody listens on at the moment.
pub(super) fn free_port() -> io::Result<u16> {
    for _ in 0..COUNT {
        let candidate = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = u16::try_from(candidate).map_err(io::Error::other)?;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_listener) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
