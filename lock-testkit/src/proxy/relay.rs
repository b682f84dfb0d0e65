//! The thread of a proxy: one loop that waits for all sockets at once.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::ProxyFault;
use super::link::{Fate, Link, Side};
use super::shared::Shared;
use crate::server::port;

/// Something that the proxy's owner lets the loop do.
pub(super) type Call = Box<dyn FnOnce(&mut Relay) + Send>;

/// How long no connection is accepted when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Bytes that were sent before a call are read before the call is carried out, within this many
/// turns.
const TURNS_BEFORE_A_CALL: u32 = 32;

const READ_SIZE: usize = 64 << 10;

pub(super) struct Relay {
    addr: SocketAddr,
    target: SocketAddr,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    accept_again: Option<Instant>,
    accepted: usize,
    links: Vec<Link>,
    shared: Shared,
    wake: UnixStream,
    buffer: Vec<u8>,
}

/// A socket that has something to do.
struct Ready {
    link: usize,
    side: Side,
    is_writable: bool,
}

impl Relay {
    /// Both `listener` and `wake` must not block.
    pub(super) fn new(
        addr: SocketAddr,
        target: SocketAddr,
        listener: TcpListener,
        wake: UnixStream,
    ) -> Self {
        Self {
            addr,
            target,
            listener: Some(listener),
            accept_again: None,
            accepted: 0,
            links: Vec::new(),
            shared: Shared::default(),
            wake,
            buffer: vec![0; READ_SIZE],
        }
    }

    /// Runs until the other end of `calls` is dropped.
    pub(super) fn run(mut self, calls: &Receiver<Call>) {
        loop {
            self.turn(self.timeout(Instant::now()));
            loop {
                let call = match calls.try_recv() {
                    Ok(call) => call,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                };
                for _ in 0..TURNS_BEFORE_A_CALL {
                    if !self.turn(Some(Duration::ZERO)) {
                        break;
                    }
                }
                call(&mut self);
                self.write_all();
            }
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted
    }

    pub(super) fn open_connections(&self) -> usize {
        self.links.iter().filter(|link| link.has_client()).count()
    }

    pub(super) fn set_fault(&mut self, fault: ProxyFault) -> io::Result<()> {
        match fault {
            ProxyFault::Refuse => {
                self.cut();
                self.refuse();
            }
            _ => self.listen()?,
        }
        match fault {
            ProxyFault::BlackHole => self.links.iter_mut().for_each(Link::die_if_in_flight),
            ProxyFault::HalfOpen => self.links.iter_mut().for_each(Link::die),
            _ => {}
        }
        self.shared.fault = Some(fault);
        Ok(())
    }

    pub(super) fn heal(&mut self) -> io::Result<()> {
        self.listen()?;
        self.shared.fault = None;
        self.links.iter_mut().for_each(Link::forgive);
        self.links.retain(|link| !link.is_orphan());
        Ok(())
    }

    pub(super) fn cut(&mut self) {
        for link in self.links.drain(..) {
            link.cut(&self.shared);
        }
    }

    fn refuse(&mut self) {
        if let Some(listener) = self.listener.take() {
            // A process that is being started may have a copy for a moment, and closing alone would then
            // end nothing. Where the system cannot shut down a listener this fails, which does no harm.
            shutdown(&listener, Shutdown::Both).ok();
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            let listener = port::listen_again(self.addr)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        let dues = self
            .links
            .iter()
            .filter_map(|link| link.next_due(&self.shared));
        let next = dues.chain(self.accept_again).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Waits until there is something to do or the timeout has passed, and does it. Returns whether
    /// there was something to do.
    fn turn(&mut self, timeout: Option<Duration>) -> bool {
        let (ready, accepts) = self.wait(timeout);
        let busy = !ready.is_empty() || accepts;
        self.drain_wake();
        let now = Instant::now();
        let mut cuts = Vec::new();
        for Ready {
            link: at,
            side,
            is_writable,
        } in ready
        {
            if cuts.contains(&at) {
                continue;
            }
            let link = &mut self.links[at];
            if is_writable {
                link.write_to(side, true, now, &self.shared);
            }
            if link.wants_read(side, &self.shared)
                && link.read(side, &mut self.buffer, &mut self.shared) == Fate::Cut
            {
                cuts.push(at);
            }
        }
        // From the last to the first, so that the others keep their places.
        cuts.sort_unstable();
        for at in cuts.into_iter().rev() {
            self.links.remove(at).cut(&self.shared);
        }
        if accepts {
            self.accept(now);
        }
        self.write_all();
        busy
    }

    /// Returns which sockets have something to do, and whether there are new connections.
    fn wait(&mut self, timeout: Option<Duration>) -> (Vec<Ready>, bool) {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        self.accept_again = self.accept_again.filter(|again| *again > Instant::now());
        let listener = self
            .listener
            .as_ref()
            .filter(|_| self.accept_again.is_none());
        fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
        let first = fds.len();
        let mut sockets = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            for side in [Side::Client, Side::Server] {
                let Some(leg) = link.leg(side) else { continue };
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, link.wants_read(side, &self.shared));
                flags.set(PollFlags::OUT, leg.wants_write());
                // A socket that waits for nothing would still wake us with its end, for ever.
                if !flags.is_empty() {
                    fds.push(PollFd::from_borrowed_fd(leg.fd(), flags));
                    sockets.push((at, side));
                }
            }
        }
        wait_for(&mut fds, timeout);
        let accepts = first == 2 && !fds[1].revents().is_empty();
        let ready = sockets.into_iter().zip(&fds[first..]);
        let ready = ready.filter(|(_, fd)| !fd.revents().is_empty());
        let ready = ready.map(|((link, side), fd)| Ready {
            link,
            side,
            is_writable: fd.revents() != PollFlags::IN,
        });
        (ready.collect(), accepts)
    }

    /// The bytes mean nothing but that there may be a call.
    fn drain_wake(&mut self) {
        while self.wake.read(&mut self.buffer).is_ok_and(|read| read > 0) {}
    }

    fn accept(&mut self, now: Instant) {
        let Some(listener) = &self.listener else {
            return;
        };
        loop {
            match listener.accept() {
                Ok((client, _)) => {
                    self.accepted += 1;
                    // If the client has already gone, or the server cannot be reached, the client sees
                    // its connection end.
                    if let Ok(link) = Link::open(client, self.target) {
                        self.links.push(link);
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        self.accept_again = Some(now + ACCEPT_PAUSE);
                        return;
                    }
                },
            }
        }
    }

    fn write_all(&mut self) {
        let now = Instant::now();
        let shared = &self.shared;
        self.links.retain_mut(|link| link.write(now, shared));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.refuse();
    }
}

fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<Duration>) {
    // A timeout that is too long to be expressed is too long to be waited for.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => panic!("cannot wait for {} sockets: {errno}", fds.len()),
    }
}
