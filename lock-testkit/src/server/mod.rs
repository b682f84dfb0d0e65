//! Real servers for tests.

mod builder;
mod cluster;
mod connection;
mod error;
pub(crate) mod port;
mod process;
mod sentinel;
mod tls;
mod watchdog;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::Reply;

use builder::Launch;
pub use builder::RedisServerBuilder;
pub use cluster::RedisCluster;
pub use connection::Connection;
pub use error::ServerError;
use process::Process;
pub(crate) use process::setup;
pub(crate) use tls::TlsFiles;

/// A real `redis-server` for one test, found on the `PATH`, or what the environment variable
/// `LOCK_TESTKIT_SERVER` names.
///
/// It listens on a free port of the loopback interface, keeps its files in a temporary directory,
/// does not persist its data, and allows the `DEBUG` command. It can be paused, killed and
/// restarted at any time, from any thread.
///
/// Dropping it kills the server and removes the directory, also during a panic. If the test process
/// itself is killed, aborts or exits without dropping it (as with a server in a `static`), a watchdog
/// process does so. All methods block: they are for tests, where that does no harm.
///
/// ```no_run
/// use lock_core::Reply;
/// use lock_testkit::RedisServer;
///
/// let server = RedisServer::start()?;
/// server.command(&["SET", "greeting", "hello"])?;
/// assert_eq!(server.command(&["EXISTS", "greeting"])?, Reply::Int(1));
///
/// server.pause()?; // Now it accepts connections and commands, and answers none of them.
/// server.resume()?;
///
/// server.restart()?; // On the same port, without its data.
/// assert_eq!(server.command(&["EXISTS", "greeting"])?, Reply::Int(0));
/// # Ok::<_, lock_testkit::ServerError>(())
/// ```
pub struct RedisServer {
    launch: Launch,
    dir: PathBuf,
    process: Mutex<Process>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no `redis-server`; it says how to install it.
    /// Errors of a server that does not come up show the end of its log.
    pub fn start() -> Result<Self, ServerError> {
        Self::builder().start()
    }

    /// Starts `count` servers at the same time.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); then none of them runs.
    pub fn start_many(count: usize) -> Result<Vec<Self>, ServerError> {
        Self::builder().start_many(count)
    }

    /// Begins a server with settings of your own.
    #[must_use]
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::new()
    }

    /// The address on which it listens. It displays like the label of a node: `127.0.0.1:6379`.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.launch.addr
    }

    /// The port on which it listens, the same after each restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// The address on which it speaks TLS, the same after each restart; `None` without
    /// [`tls`](RedisServerBuilder::tls).
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.launch.tls_addr
    }

    /// The URL for a client: `redis://127.0.0.1:6379`, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.launch.password {
            Some(password) => format!("redis://:{}@{}", percent_encoded(password), self.addr()),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// The server's process id; `None` after it was killed.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process().pid()
    }

    /// The directory where it keeps its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process().log_tail()
    }

    /// Opens a connection to the server.
    ///
    /// # Errors
    ///
    /// [`ServerError::Connect`]; [`ServerError::NoAnswer`] from a paused server with a password.
    pub fn connect(&self) -> Result<Connection, ServerError> {
        Connection::open(self.addr(), self.launch.password.as_deref())
    }

    /// Sends a command over a new connection and waits for the answer:
    /// `server.command(&["PTTL", "key"])`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Reply`] if the server answers with an error; those of a connection.
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, ServerError> {
        self.connect()?.command(words)
    }

    /// Stops the process (SIGSTOP), and returns when it has stopped. The system still accepts
    /// connections and commands for it, but none is answered before [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// [`ServerError::NotRunning`] if it was killed.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.process().pause()
    }

    /// Lets a paused process continue (SIGCONT). It first runs the commands that it was sent meanwhile.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotRunning`] if it was killed.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.process().resume()
    }

    /// Kills the process (SIGKILL), paused or not, and waits for its end. Nothing happens if it was
    /// killed before.
    ///
    /// # Errors
    ///
    /// [`ServerError::Process`] if the system does not allow it.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.process().kill()
    }

    /// Kills the process if it runs, and starts it again on the same port without its data.
    ///
    /// Settings made at run time (`CONFIG SET`, `ACL SETUSER`) are lost too.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); [`ServerError::PortTaken`] if another program took the port meanwhile.
    pub fn restart(&self) -> Result<(), ServerError> {
        let mut process = self.process();
        process.kill()?;
        process.clear_data()?;
        self.launch.run(&mut process)
    }

    /// Saves the data, kills the process and starts it again on the same port with its data.
    ///
    /// A paused server resumes first. One that was killed can no longer save: it comes back with the
    /// data that it saved last, if it ever did.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart); [`ServerError::Reply`] if it cannot save.
    pub fn restart_with_data(&self) -> Result<(), ServerError> {
        let mut process = self.process();
        if process.pid().is_some() {
            process.resume()?;
            self.command(&["SAVE"])?;
            process.kill()?;
        }
        self.launch.run(&mut process)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // After a panic while the lock was held, the process can still be killed.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("addr", &self.addr())
            .finish_non_exhaustive()
    }
}

/// Returns a password in the form in which a URL may contain it.
pub(crate) fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
