//! A client of plain bytes, behind a `FaultProxy`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use lock_core::Reply;
use lock_testkit::{FaultProxy, RedisServer};

use super::LONG;

pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        self.send_bytes(&request(words));
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Reads this, and nothing beyond it.
    pub(crate) fn expect(&mut self, bytes: &str) {
        let mut read = vec![0; bytes.len()];
        self.0.read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8_lossy(&read), bytes);
    }

    /// Reads up to the first place where this stands.
    pub(crate) fn expect_up_to(&mut self, end: &str) {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
    }

    /// Waits until something has come, and leaves it there.
    pub(crate) fn wait_readable(&self) {
        assert_eq!(self.0.peek(&mut [0]).unwrap(), 1);
    }

    /// Sends nothing more, and still reads.
    pub(crate) fn finish(&self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// All that still comes until the connection ends.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection does not end: {error}"),
        }
        String::from_utf8(rest).unwrap()
    }

    /// Neither bytes nor an end have come so far.
    pub(crate) fn assert_silent(&self) {
        self.0.set_nonblocking(true).unwrap();
        let error = self.0.peek(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        self.0.set_nonblocking(false).unwrap();
    }
}

pub(crate) fn request(words: &[&str]) -> Vec<u8> {
    let parts = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), parts.collect::<String>()).into_bytes()
}

pub(crate) fn start() -> (RedisServer, FaultProxy) {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.addr()).unwrap();
    (server, proxy)
}

pub(crate) fn exists(server: &RedisServer, key: &str) -> bool {
    server.command(&["EXISTS", key]).unwrap() == Reply::Int(1)
}

/// Waits until so many requests have reached the proxy.
pub(crate) fn wait_for_requests(proxy: &FaultProxy, count: u64) {
    super::eventually("the requests reach the proxy", || {
        proxy.request_count() >= count
    });
    let requests = proxy.requests();
    assert_eq!(proxy.request_count(), count, "{requests:?}");
}

/// Waits until so many clients are connected. Even on one machine what was opened and closed here
/// needs a moment to get there; a process that is being started may hold a socket for as long.
pub(crate) fn wait_for_clients(proxy: &FaultProxy, count: usize) {
    super::eventually("so many clients are connected", || {
        proxy.open_connections() == count
    });
}

/// Waits until the server has done what was asked of it and has answered.
pub(crate) fn wait_for(server: &RedisServer, key: &str) {
    super::eventually("the server has the key", || exists(server, key));
    // It answers the earlier one before it reads this.
    server.command(&["PING"]).unwrap();
}

/// How many connections the server has, besides the one that asks.
pub(crate) fn connections_of(server: &RedisServer) -> usize {
    let Reply::Bytes(list) = server.command(&["CLIENT", "LIST"]).unwrap() else {
        panic!("no list");
    };
    String::from_utf8(list).unwrap().lines().count() - 1
}
