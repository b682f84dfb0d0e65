//! Starts a server.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use lock_core::Reply;

use super::connection::Connection;
use super::port::free_port;
use super::process::{Process, setup};
use super::tls::TlsFiles;
use super::{RedisServer, ServerError, sentinel};

/// How long a server may take to start: a machine that is busy with other tests may need a while.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two looks at whether the server is up. It needs some 10 ms on a fast machine.
const START_POLL: Duration = Duration::from_millis(3);

/// How often another port is tried when another program was faster.
const PORT_TRIES: u32 = 20;

/// Names the program that is run unless the test names one.
const PROGRAM_VARIABLE: &str = "LOCK_TESTKIT_SERVER";

/// Builds and starts a [`RedisServer`].
#[derive(Clone)]
pub struct RedisServerBuilder {
    program: OsString,
    args: Vec<String>,
    password: Option<String>,
    tls: Option<TlsFiles>,
    sentinel: Option<String>,
}

impl RedisServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            program: program(env::var_os(PROGRAM_VARIABLE)),
            args: Vec::new(),
            password: None,
            tls: None,
            sentinel: None,
        }
    }

    /// The program to run: a path, or a name that is looked up on the `PATH`. Defaults to that of the
    /// environment variable `LOCK_TESTKIT_SERVER`, so that a whole suite can run against another server or
    /// another version, and to `redis-server` without one.
    #[must_use]
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.program = program.into();
        self
    }

    /// Adds a setting on the command line: `.arg("--maxmemory", "10mb")`. It overrides the settings
    /// that a [`RedisServer`] has by default, but not its `--port`, `--bind` and `--dir`. A
    /// `--requirepass` is also used by [`command`](RedisServer::command) and is part of the
    /// [`url`](RedisServer::url).
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        if name == "--requirepass" {
            self.password = Some(value.clone());
        }
        self.args.extend([name, value]);
        self
    }

    /// Adds a port that speaks TLS, at [`tls_addr`](RedisServer::tls_addr), with files in PEM: the
    /// server's certificate, its key, and the certificates by which it checks those of its clients.
    /// It asks clients for none, unless `.arg("--tls-auth-clients", "yes")` says so. The plain port
    /// stays, so that the test can look into the server.
    #[must_use]
    pub fn tls(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        ca: impl Into<PathBuf>,
    ) -> Self {
        self.tls = Some(TlsFiles {
            certificate: certificate.into(),
            key: key.into(),
            ca: ca.into(),
        });
        self
    }

    /// Makes a sentinel of it, which watches this master by that name. It takes the master for down after
    /// a second without an answer, if `quorum` sentinels say so. After a [`restart`](RedisServer::restart) it knows no
    /// more than that again.
    #[must_use]
    pub fn sentinel(mut self, name: &str, master: &RedisServer, quorum: usize) -> Self {
        self.sentinel = Some(sentinel::config(name, master, quorum));
        self
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotInstalled`] if there is no such program. Errors of a server that does not
    /// come up show the end of its log.
    pub fn start(&self) -> Result<RedisServer, ServerError> {
        let has_debug_switch = self.major_version()? >= 7;
        let mut tries = 0;
        loop {
            tries += 1;
            let addr = free_addr()?;
            let tls_addr = match &self.tls {
                Some(_) => Some(free_addr()?),
                None => None,
            };
            let mut process = Process::prepare(addr)?;
            let mut args = self.all_args(addr, &process, has_debug_switch);
            if let (Some(tls), Some(addr)) = (&self.tls, tls_addr) {
                args.extend(tls.args(addr.port()));
            }
            let launch = Launch {
                program: self.program.clone(),
                args,
                password: self.password.clone(),
                addr,
                tls_addr,
                sentinel: self.sentinel.clone(),
            };
            match launch.run(&mut process) {
                Err(ServerError::PortTaken { .. }) if tries < PORT_TRIES => {}
                Err(ServerError::PortTaken { port, log, .. }) => {
                    return Err(ServerError::PortTaken { port, tries, log });
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    return Ok(RedisServer {
                        dir: process.dir().to_owned(),
                        launch,
                        process: Mutex::new(process),
                    });
                }
            }
        }
    }

    /// Starts `count` servers at the same time.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); then none of them runs.
    pub fn start_many(&self, count: usize) -> Result<Vec<RedisServer>, ServerError> {
        thread::scope(|scope| {
            let starts: Vec<_> = (0..count).map(|_| scope.spawn(|| self.start())).collect();
            starts
                .into_iter()
                .map(|start| {
                    start
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    /// Asks the program for its version, which also shows whether there is such a program.
    fn major_version(&self) -> Result<u32, ServerError> {
        let output = Command::new(&self.program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| match source.kind() {
                _ if self.program.is_empty() => ServerError::NoProgram { source },
                ErrorKind::NotFound => ServerError::NotInstalled {
                    program: self.program.to_string_lossy().into_owned(),
                    source,
                },
                _ => setup("ask redis-server for its version")(source),
            })?;
        // Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=...
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("v="));
        let major = version.and_then(|version| version.split('.').next()?.parse().ok());
        // A program that does not say is taken for a current one.
        Ok(major.unwrap_or(u32::MAX))
    }

    fn all_args(&self, addr: SocketAddr, process: &Process, has_debug_switch: bool) -> Vec<String> {
        let port = addr.port().to_string();
        let ip = addr.ip().to_string();
        let dir = process.dir().to_string_lossy();
        let mut args = vec!["--save", "", "--appendonly", "no"];
        // Redis 6 does not know this setting and always has the command.
        if has_debug_switch {
            args.extend(["--enable-debug-command", "yes"]);
        }
        if self.tls.is_some() {
            args.extend(["--tls-auth-clients", "no"]);
        }
        args.extend(self.args.iter().map(String::as_str));
        // These must be what the kit believes them to be, whatever the other settings.
        args.extend(["--port", &port, "--bind", &ip, "--dir", &dir]);
        let file = sentinel::file(process.dir());
        let file = file.to_string_lossy();
        if self.sentinel.is_some() {
            args.insert(0, &file);
            args.push("--sentinel");
        }
        args.into_iter().map(str::to_owned).collect()
    }
}

impl fmt::Debug for RedisServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments may hold a password.
        f.debug_struct("RedisServerBuilder")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Everything that is needed to launch a server, for the first time or again.
pub(super) struct Launch {
    program: OsString,
    args: Vec<String>,
    pub(super) password: Option<String>,
    pub(super) addr: SocketAddr,
    pub(super) tls_addr: Option<SocketAddr>,
    /// What is in the file that a sentinel begins with, and writes to.
    sentinel: Option<String>,
}

/// One that is empty is no default: most likely the command that was to name it has failed.
fn program(from_environment: Option<OsString>) -> OsString {
    from_environment.unwrap_or_else(|| "redis-server".into())
}

fn free_addr() -> Result<SocketAddr, ServerError> {
    let port = free_port().map_err(setup("find a free port"))?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

impl Launch {
    /// Launches the server and waits until it answers and is proven to be ours. If it does not come
    /// up, nothing of it is left.
    pub(super) fn run(&self, process: &mut Process) -> Result<(), ServerError> {
        process.clear_log()?;
        if let Some(config) = &self.sentinel {
            fs::write(sentinel::file(process.dir()), config)
                .map_err(setup("write the file of a sentinel"))?;
        }
        let up = process
            .launch(&self.program, &self.args)
            .and_then(|()| self.wait_until_up(process));
        if up.is_err() {
            process.kill()?;
        }
        up
    }

    fn wait_until_up(&self, process: &mut Process) -> Result<(), ServerError> {
        let start = Instant::now();
        loop {
            let child = process.child()?;
            let pid = child.id();
            let ended = child.try_wait().map_err(|source| ServerError::Process {
                what: "look at",
                pid,
                source,
            })?;
            if let Some(status) = ended {
                return Err(self.why_it_ended(status, process.log_tail()));
            }
            let Err(source) = self.ask_who_answers(pid) else {
                return Ok(());
            };
            let waited = start.elapsed();
            if waited > START_TIMEOUT {
                return Err(ServerError::NotReady {
                    waited,
                    log: process.log_tail(),
                    source: Box::new(source),
                });
            }
            thread::sleep(START_POLL);
        }
    }

    fn why_it_ended(&self, status: ExitStatus, log: String) -> ServerError {
        if log.contains("Address already in use") {
            let port = self.addr.port();
            return ServerError::PortTaken {
                port,
                tries: 1,
                log,
            };
        }
        ServerError::Ended { status, log }
    }

    /// Fails unless the server that answers on the port, if one does, has the process id of our child.
    fn ask_who_answers(&self, expected: u32) -> Result<(), ServerError> {
        let mut connection = Connection::open(self.addr, self.password.as_deref())?;
        let info = match connection.command(&["INFO", "server"])? {
            Reply::Bytes(info) => String::from_utf8_lossy(&info).into_owned(),
            other => return Err(unexpected("INFO", &other)),
        };
        let pids = info
            .lines()
            .filter_map(|line| line.strip_prefix("process_id:"));
        let found: String = pids.take(1).collect();
        if found != expected.to_string() {
            return Err(ServerError::NotOurs {
                addr: self.addr,
                expected,
                found,
            });
        }
        // A server that still loads its data answers INFO, but no commands.
        match connection.command(&["PING"])? {
            Reply::Bytes(pong) if pong == b"PONG" => Ok(()),
            other => Err(unexpected("PING", &other)),
        }
    }
}

fn unexpected(command: &'static str, reply: &Reply) -> ServerError {
    ServerError::UnexpectedReply {
        command,
        reply: format!("{reply:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_name_the_program() {
        assert_eq!(program(None), "redis-server");
        assert_eq!(program(Some("".into())), "");
        assert_eq!(program(Some("/opt/valkey".into())), "/opt/valkey");
    }
}
