//! A blocking connection that speaks RESP2, for tests to look into a server.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use lock_core::Reply;

use super::ServerError;

/// How long a command may take by default. A healthy server never takes that long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A plain, blocking connection to a [`RedisServer`](super::RedisServer).
///
/// It shares no code with any backend, so that a test can look at what a backend did.
#[derive(Debug)]
pub struct Connection {
    addr: SocketAddr,
    timeout: Duration,
    stream: BufReader<TcpStream>,
    /// After an error, answers would no longer pair with their commands.
    broken: bool,
}

/// A reply on the wire: an error may be part of an array, which [`Reply`] cannot hold.
type Line = Result<Reply, String>;

impl Connection {
    pub(super) fn open(addr: SocketAddr, password: Option<&str>) -> Result<Self, ServerError> {
        let connect = |source| ServerError::Connect { addr, source };
        let stream = TcpStream::connect_timeout(&addr, DEFAULT_TIMEOUT).map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        let mut connection = Self {
            addr,
            timeout: DEFAULT_TIMEOUT,
            stream: BufReader::new(stream),
            broken: false,
        };
        connection.set_timeout(DEFAULT_TIMEOUT)?;
        if let Some(password) = password {
            connection.command(&["AUTH", password])?;
        }
        Ok(connection)
    }

    /// Limits how long a command may wait for its answer. Defaults to 10 s.
    ///
    /// # Errors
    ///
    /// [`ServerError::Connection`] for a timeout of zero.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), ServerError> {
        let stream = self.stream.get_ref();
        stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| stream.set_write_timeout(Some(timeout)))
            .map_err(|source| self.failed(source))?;
        self.timeout = timeout;
        Ok(())
    }

    /// Sends a command and waits for its answer: `connection.command(&["EXISTS", "key"])`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Reply`] if the server answers with an error; then the connection stays
    /// usable. After any other error it is not.
    pub fn command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply, ServerError> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command without waiting for its answer.
    ///
    /// # Errors
    ///
    /// [`ServerError::Connection`] if the connection has broken.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<(), ServerError> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.check()?;
        let sent = self.stream.get_mut().write_all(&bytes);
        self.broken = sent.is_err();
        sent.map_err(|source| self.failed(source))
    }

    /// Waits for the answer to the oldest command that has none yet.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub fn receive(&mut self) -> Result<Reply, ServerError> {
        self.check()?;
        let read = self.read();
        self.broken = read.is_err();
        read?.map_err(|line| ServerError::Reply { line })
    }

    fn read(&mut self) -> Result<Line, ServerError> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| self.odd(&line))?;
        Ok(match kind {
            "+" => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
            "-" => Err(rest.to_owned()),
            ":" => Ok(Reply::Int(self.number(rest)?)),
            "$" => match usize::try_from(self.number(rest)?) {
                Ok(length) => Ok(Reply::Bytes(self.read_bulk(length)?)),
                Err(_negative) => Ok(Reply::Nil),
            },
            "*" => match usize::try_from(self.number(rest)?) {
                // All of it is read before an error in it is returned.
                Ok(length) => (0..length)
                    .map(|_| self.read())
                    .collect::<Result<Vec<Line>, _>>()?
                    .into_iter()
                    .collect::<Result<_, _>>()
                    .map(Reply::Array),
                Err(_negative) => Ok(Reply::Nil),
            },
            _ => return Err(self.odd(&line)),
        })
    }

    fn read_line(&mut self) -> Result<String, ServerError> {
        let mut bytes = Vec::new();
        let read = self.stream.read_until(b'\n', &mut bytes);
        read.map_err(|source| self.failed(source))?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(self.failed(ErrorKind::UnexpectedEof.into())),
        }
    }

    fn read_bulk(&mut self, length: usize) -> Result<Vec<u8>, ServerError> {
        let mut bytes = vec![0; length + 2];
        let read = self.stream.read_exact(&mut bytes);
        read.map_err(|source| self.failed(source))?;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn number(&self, text: &str) -> Result<i64, ServerError> {
        text.parse().map_err(|_not_a_number| self.odd(text))
    }

    fn check(&self) -> Result<(), ServerError> {
        if self.broken {
            return Err(self.failed(ErrorKind::NotConnected.into()));
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> ServerError {
        let addr = self.addr;
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ServerError::NoAnswer {
                addr,
                within: self.timeout,
            },
            _ => ServerError::Connection { addr, source },
        }
    }

    fn odd(&self, found: &str) -> ServerError {
        ServerError::Protocol {
            addr: self.addr,
            found: found.to_owned(),
        }
    }
}

impl Drop for Connection {
    /// Ends the connection at once, even while a process that is just being started still has a copy
    /// of the socket, so that a test that counts connections does not find this one.
    fn drop(&mut self) {
        // An error means that the server has already ended it.
        self.stream.get_ref().shutdown(Shutdown::Both).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_dropped_connection_ends_though_somebody_holds_a_copy_of_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(listener.local_addr().unwrap(), None).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(DEFAULT_TIMEOUT)).unwrap();
        let copy = connection.stream.get_ref().try_clone().unwrap();
        drop(connection);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        drop(copy);
    }
}
