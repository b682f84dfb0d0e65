//! One side of a connection through the proxy: a socket that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

/// While more bytes than this wait to be written, none are read for it.
pub(super) const FULL: usize = 16 << 20;

pub(super) struct Leg {
    stream: TcpStream,
    out: Vec<u8>,
    connecting: bool,
    /// The peer sends nothing more.
    ended: bool,
    /// Nothing more is to be written.
    writes_shut: bool,
}

pub(super) enum Got {
    Bytes(usize),
    Nothing,
    /// The peer has closed, or the connection broke: here that is the same.
    End,
}

impl Leg {
    pub(super) fn accepted(stream: TcpStream) -> io::Result<Self> {
        Self::new(stream, false)
    }

    /// Begins to connect, without waiting: a server with a full queue of connections would otherwise
    /// stop all other connections too.
    pub(super) fn dial(target: SocketAddr) -> io::Result<Self> {
        let family = match target {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let stream = TcpStream::from(new_socket(family)?);
        stream.set_nonblocking(true)?;
        let connecting = match rustix::net::connect(&stream, &target) {
            Ok(()) => false,
            Err(Errno::INPROGRESS | Errno::INTR) => true,
            Err(errno) => return Err(errno.into()),
        };
        Self::new(stream, connecting)
    }

    fn new(stream: TcpStream, connecting: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            connecting,
            ended: false,
            writes_shut: false,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) fn wants_read(&self) -> bool {
        !self.connecting && !self.ended
    }

    pub(super) fn wants_write(&self) -> bool {
        self.connecting || !self.out.is_empty()
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn waiting(&self) -> usize {
        self.out.len()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Forgets the bytes that have not been written.
    pub(super) fn clear(&mut self) {
        self.out.clear();
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Got {
        if !self.wants_read() {
            return Got::Nothing;
        }
        match self.stream.read(buffer) {
            Ok(read @ 1..) => Got::Bytes(read),
            Err(error) if is_not_yet(&error) => Got::Nothing,
            Ok(0) | Err(_) => {
                self.ended = true;
                Got::End
            }
        }
    }

    /// Notices that the connection has been made, and writes what can be written.
    ///
    /// An error is the end of this leg.
    pub(super) fn write(&mut self, is_writable: bool) -> io::Result<()> {
        if self.connecting {
            if !is_writable {
                return Ok(());
            }
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            self.connecting = false;
        }
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_not_yet(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stops writing after an error of a write. Returns whether bytes that the peer has sent before may
    /// still be there to read.
    pub(super) fn only_reads(&mut self) -> bool {
        self.out.clear();
        self.writes_shut = true;
        !self.connecting
    }

    /// Tells the peer that nothing more will come, once all is written.
    pub(super) fn finish_writes(&mut self) -> io::Result<()> {
        if self.writes_shut || self.wants_write() {
            return Ok(());
        }
        self.writes_shut = true;
        self.stream.shutdown(Shutdown::Write)
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        // A process that is being started may have a copy for a moment, and closing alone would then
        // end nothing. This fails where the peer was faster.
        drop(self.stream.shutdown(Shutdown::Both));
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Makes a socket that no process inherits which a test starts meanwhile: it would keep the connection
/// open.
#[cfg(not(target_vendor = "apple"))]
fn new_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    use rustix::net::{SocketFlags, socket_with};
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The same where a system cannot say so at once.
#[cfg(target_vendor = "apple")]
fn new_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}
