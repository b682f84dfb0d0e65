//! Errors of real servers.

use std::io;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Why a [`RedisServer`](super::RedisServer) did not start, obey or answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no such program.
    #[error(
        "there is no program {program}; install it with `apt-get install redis-server` (Debian, Ubuntu), \
         `dnf install redis` (Fedora) or `brew install redis` (macOS), or name another one by the \
         environment variable LOCK_TESTKIT_SERVER"
    )]
    NotInstalled {
        /// The program that was looked for.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The environment variable that names the program is empty.
    #[error("LOCK_TESTKIT_SERVER is empty: it has to name a program, or not to be set")]
    NoProgram {
        /// The system's error.
        source: io::Error,
    },
    /// Something that a server, or a proxy in front of it, needs could not be set up.
    #[error("cannot {what}")]
    Setup {
        /// What failed: `make a temporary directory`.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server ended before it answered.
    #[error("redis-server ended with {status} before it answered; the end of its log:\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The server was started, but did not answer in time as the one that was started.
    #[error("redis-server did not answer in {waited:?}; the end of its log:\n{log}")]
    NotReady {
        /// How long it was given.
        waited: Duration,
        /// The end of its log.
        log: String,
        /// The answer to the last question.
        source: Box<ServerError>,
    },
    /// Another program listens on the port, and answers with another process id.
    #[error("process {found} answers on {addr}, not our process {expected}")]
    NotOurs {
        /// The address on which it was asked.
        addr: SocketAddr,
        /// The process id of our server.
        expected: u32,
        /// The process id in the answer.
        found: String,
    },
    /// The port was taken at each try.
    #[error("port {port} is taken, after {tries} tries; the end of the log:\n{log}")]
    PortTaken {
        /// The port of the last try.
        port: u16,
        /// How often it was tried.
        tries: u32,
        /// The end of the server's log.
        log: String,
    },
    /// The server was killed and not started again.
    #[error("the server at {addr} is not running")]
    NotRunning {
        /// The server's address.
        addr: SocketAddr,
    },
    /// The server's process could not be sent a signal, or waited for.
    #[error("cannot {what} process {pid}")]
    Process {
        /// What failed: `stop`.
        what: &'static str,
        /// The server's process id.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The server cannot be connected to.
    #[error("cannot connect to {addr}")]
    Connect {
        /// The server's address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The server did not answer in time. The command may still run, and the connection can no longer
    /// be used.
    #[error("no answer from {addr} in {within:?}")]
    NoAnswer {
        /// The server's address.
        addr: SocketAddr,
        /// For how long the answer was awaited.
        within: Duration,
    },
    /// The connection broke while a command was sent or its answer awaited.
    #[error("the connection to {addr} broke")]
    Connection {
        /// The server's address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The server answered something that is not RESP2.
    #[error("{addr} answered with something that is not RESP2: {found:?}")]
    Protocol {
        /// The server's address.
        addr: SocketAddr,
        /// Its answer.
        found: String,
    },
    /// The server answered with an error.
    #[error("the server answered: {line}")]
    Reply {
        /// The error, code first, without the leading `-`.
        line: String,
    },
    /// The server's answer does not belong to such a command.
    #[error("unexpected reply to {command}: {reply}")]
    UnexpectedReply {
        /// The name of the command.
        command: &'static str,
        /// The reply.
        reply: String,
    },
}
