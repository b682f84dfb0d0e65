//! The process of a server, with its directory and its watchdog.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::ServerError;
use super::watchdog::Watchdog;

const LOG_NAME: &str = "redis-server.log";

/// How many bytes of a log an error shows.
const LOG_TAIL_BYTES: usize = 4096;

/// A server's process, which may have been killed and may be launched again.
///
/// Dropping it kills the process and removes the directory.
#[derive(Debug)]
pub(super) struct Process {
    addr: SocketAddr,
    child: Option<Child>,
    // The order matters: at its end the watchdog removes what is left of the directory.
    dir: TempDir,
    watchdog: Watchdog,
}

impl Process {
    /// Prepares the directory of a server that is to listen on `addr`, and launches nothing yet.
    pub(super) fn prepare(addr: SocketAddr) -> Result<Self, ServerError> {
        let dir = tempfile::Builder::new()
            .prefix("lock-testkit-")
            .tempdir()
            .map_err(setup("make a temporary directory"))?;
        let watchdog = Watchdog::start(dir.path(), addr.port())?;
        Ok(Self {
            addr,
            child: None,
            dir,
            watchdog,
        })
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn log_path(&self) -> PathBuf {
        self.dir().join(LOG_NAME)
    }

    /// Starts the program, unless it runs.
    pub(super) fn launch(&mut self, program: &OsStr, args: &[String]) -> Result<(), ServerError> {
        if self.child.is_some() {
            return Ok(());
        }
        let log = self
            .open_log()
            .map_err(setup("open the log of redis-server"))?;
        let errors = log
            .try_clone()
            .map_err(setup("open the log of redis-server"))?;
        // The shell becomes the server only when it is told to go on, which is after the watchdog
        // knows the process id. If this process dies in between, the shell reads the end of its
        // input and ends too. So there is no moment at which a server can be left behind.
        let mut child = Command::new("sh")
            .args(["-c", r#"read -r go && exec "$0" "$@" </dev/null"#])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(setup("start a shell for redis-server"))?;
        let go = child.stdin.take();
        let armed = self.watchdog.arm(self.child.insert(child));
        armed.and_then(|()| {
            let mut go =
                go.ok_or_else(|| setup("start redis-server")(io::ErrorKind::BrokenPipe.into()))?;
            go.write_all(b"go\n").map_err(setup("start redis-server"))
        })
    }

    fn open_log(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).open(self.log_path())
    }

    /// Returns the end of the log, which errors show.
    pub(super) fn log_tail(&self) -> String {
        match fs::read(self.log_path()) {
            Ok(log) => {
                let tail = &log[log.len().saturating_sub(LOG_TAIL_BYTES)..];
                String::from_utf8_lossy(tail).into_owned()
            }
            Err(error) => format!("(the log cannot be read: {error})"),
        }
    }

    /// Empties the log, so that its end is about the next launch.
    pub(super) fn clear_log(&self) -> Result<(), ServerError> {
        fs::write(self.log_path(), []).map_err(setup("clear the log of redis-server"))
    }

    /// Removes everything that the server has written, except for its log.
    pub(super) fn clear_data(&self) -> Result<(), ServerError> {
        let clear = || {
            for entry in fs::read_dir(self.dir())? {
                let entry = entry?;
                if entry.file_name() == LOG_NAME {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        clear().map_err(setup("remove the data of redis-server"))
    }

    /// Returns the process, unless it was killed.
    pub(super) fn child(&mut self) -> Result<&mut Child, ServerError> {
        let addr = self.addr;
        self.child.as_mut().ok_or(ServerError::NotRunning { addr })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Stops the process, and returns when it has stopped.
    pub(super) fn pause(&mut self) -> Result<(), ServerError> {
        let child = self.child()?;
        let failed = |errno: rustix::io::Errno| ServerError::Process {
            what: "stop",
            pid: child.id(),
            source: errno.into(),
        };
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP).map_err(failed)?;
        // The signal takes a moment to arrive, in which a command could still be answered. With NOWAIT,
        // a child that has ended can still be waited for in its proper place.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).map_err(failed)?;
        Ok(())
    }

    pub(super) fn resume(&mut self) -> Result<(), ServerError> {
        let child = self.child()?;
        kill_process(Pid::from_child(child), Signal::CONT).map_err(|errno| ServerError::Process {
            what: "resume",
            pid: child.id(),
            source: errno.into(),
        })
    }

    /// Kills the process, stopped or not, and waits for its end. Nothing happens if it was killed
    /// before.
    pub(super) fn kill(&mut self) -> Result<(), ServerError> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        let pid = child.id();
        let failed = |what| move |source| ServerError::Process { what, pid, source };
        child.kill().map_err(failed("kill"))?;
        // Until it is waited for, no other process can have its id.
        let disarmed = self.watchdog.disarm();
        child.wait().map_err(failed("wait for"))?;
        self.child = None;
        disarmed
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If this fails, the watchdog is still armed and kills the server when it is dropped, which
        // is next.
        drop(self.kill());
    }
}

pub(crate) fn setup(what: &'static str) -> impl Fn(io::Error) -> ServerError {
    move |source| ServerError::Setup { what, source }
}
