//! A proxy that breaks connections on purpose.

mod fault;
mod frames;
mod leg;
mod link;
mod pairing;
mod record;
mod relay;
mod shared;
mod words;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

pub use fault::ProxyFault;
use relay::{Call, Relay};

use crate::server::{ServerError, port, setup};

/// A TCP proxy in front of one server, with which a test breaks connections on purpose.
///
/// It listens on a free port of the loopback interface, which it keeps, and passes bytes on in both
/// directions until a [`ProxyFault`] is set. It recognizes the requests and replies of RESP2 and
/// RESP3, in whatever pieces they come, and passes each on when it is whole; a stream that is not
/// RESP is passed on as it comes. If the server cannot be reached, the client's connection is closed.
///
/// It runs in a thread of its own and needs no runtime, so it works with any. Its methods block for a
/// moment. Whatever has reached the proxy before a method is called is handled before the method
/// takes effect: a fault is for what comes after it. On a busy system it may take a moment until an
/// action of a client reaches the proxy, so a test that has to be sure waits for
/// [`open_connections`](Self::open_connections) or [`request_count`](Self::request_count).
///
/// Dropping it closes all connections and ends the thread.
///
/// ```no_run
/// use lock_core::Reply;
/// use lock_testkit::{FaultProxy, ProxyFault, RedisServer};
///
/// let server = RedisServer::start()?;
/// let proxy = FaultProxy::start(server.addr())?;
/// let mut client = redis_client(&format!("redis://{}", proxy.addr()));
///
/// // The server does what it is asked, but the client does not hear of it.
/// proxy.set_fault(ProxyFault::CutBeforeReply);
/// assert!(client.set("k", "v").is_err());
/// assert_eq!(server.command(&["GET", "k"])?, Reply::Bytes(b"v".to_vec()));
///
/// proxy.heal();
/// assert!(client.set("k", "w").is_ok());
/// # struct Client;
/// # impl Client {
/// #     fn set(&mut self, _key: &str, _value: &str) -> Result<(), ()> { Ok(()) }
/// # }
/// # fn redis_client(_url: &str) -> Client { Client }
/// # Ok::<_, lock_testkit::ServerError>(())
/// ```
///
/// # Panics
///
/// All methods panic if the proxy's thread has ended, which happens only if the thread panics.
pub struct FaultProxy {
    addr: SocketAddr,
    target: SocketAddr,
    /// `None` only at the end.
    calls: Option<Sender<Call>>,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts to listen, and to pass everything on to `target`: see
    /// [`RedisServer::addr`](crate::RedisServer::addr). The server need not listen there yet.
    ///
    /// # Errors
    ///
    /// [`ServerError::Setup`] if there is no free port or no thread.
    pub fn start(target: SocketAddr) -> Result<Self, ServerError> {
        let listener = port::listen().map_err(setup("listen on a free port"))?;
        Self::run(target, listener).map_err(setup("start a proxy"))
    }

    fn run(target: SocketAddr, listener: std::net::TcpListener) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (calls, receiver) = channel();
        let relay = Relay::new(addr, target, listener, woken);
        let thread = thread::Builder::new()
            .name(format!("proxy-{}", addr.port()))
            .spawn(move || relay.run(&receiver))?;
        Ok(Self {
            addr,
            target,
            calls: Some(calls),
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// The address on which it listens, for all its life.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the fault, in place of the one before. [`ProxyFault`] says for each fault whether it also
    /// concerns open connections.
    ///
    /// # Panics
    ///
    /// Panics if the fault before was [`ProxyFault::Refuse`] and another program has taken the port.
    pub fn set_fault(&self, fault: ProxyFault) {
        let set = self.call(move |relay| relay.set_fault(fault));
        self.expect_port(set);
    }

    /// Ends the fault: everything passes again, and replies that were held back are delivered. Bytes
    /// that were swallowed stay lost, and a connection that has lost bytes stays silent.
    ///
    /// # Panics
    ///
    /// Panics if the fault was [`ProxyFault::Refuse`] and another program has taken the port.
    pub fn heal(&self) {
        let healed = self.call(Relay::heal);
        self.expect_port(healed);
    }

    /// Closes all open connections. New ones pass, as far as the fault allows.
    pub fn cut(&self) {
        self.call(Relay::cut);
    }

    /// Returns how many clients are connected.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.call(|relay| relay.open_connections())
    }

    /// Returns how many clients have ever connected.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.call(|relay| relay.accepted())
    }

    /// Returns the whole requests that clients have sent, as words, in the order in which they came.
    /// Requests that were swallowed are among them.
    ///
    /// The proxy keeps the latest 10,000 of them, up to 16 MiB;
    /// [`request_count`](Self::request_count) shows whether older ones were forgotten. Only an array
    /// of bulk strings counts as a request.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        self.call(|relay| relay.shared().record.to_vec())
    }

    /// Returns how many whole requests clients have ever sent.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.call(|relay| relay.shared().record.count())
    }

    /// Lets the thread, which owns everything, do something.
    fn call<T: Send + 'static>(&self, work: impl FnOnce(&mut Relay) -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let call = move |relay: &mut Relay| {
            // The caller waits below until this is done.
            drop(done.send(work(relay)));
        };
        let sent = self.calls.as_ref().map(|calls| calls.send(Box::new(call)));
        let woken = self.wake.as_ref().map(|mut wake| wake.write_all(&[0]));
        match (sent, woken, result.recv()) {
            (Some(Ok(())), Some(Ok(())), Ok(value)) => value,
            _ => panic!("the thread of the proxy at {} has ended", self.addr),
        }
    }

    fn expect_port(&self, listens: io::Result<()>) {
        if let Err(error) = listens {
            panic!("the proxy cannot listen on {} again: {error}", self.addr);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.calls.take());
        drop(self.wake.take());
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("addr", &self.addr)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
