//! A process that outlives a test process that is killed, and cleans up after it.

use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::ServerError;

/// A shell that waits for the end of its input: see the script.
///
/// It still reads whatever was written to it before this process died, so it knows the server of
/// that moment. It does not need to answer.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Watchdog {
    pub(super) fn start(dir: &Path, port: u16) -> Result<Self, ServerError> {
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "lock-testkit-watchdog"])
            .arg(dir)
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal that kills the tests by their process group must not reach it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let input = shell.stdin.take();
        Ok(Self { shell, input })
    }

    /// From now on the death of this process kills the server.
    pub(super) fn arm(&mut self, server: &Child) -> Result<(), ServerError> {
        self.tell(&server.id().to_string())
    }

    /// Forgets the server, which has ended. To be called before its process is waited for, which makes
    /// its id free for others.
    pub(super) fn disarm(&mut self) -> Result<(), ServerError> {
        self.tell("-")
    }

    fn tell(&mut self, line: &str) -> Result<(), ServerError> {
        let mut input = self
            .input
            .as_ref()
            .ok_or(ErrorKind::BrokenPipe)
            .map_err(|kind| failed(kind.into()))?;
        input
            .write_all(format!("{line}\n").as_bytes())
            .map_err(failed)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends at the end of its input. If it cannot be waited for, it has already ended.
        drop(self.shell.wait());
    }
}

fn failed(source: io::Error) -> ServerError {
    ServerError::Setup {
        what: "reach the watchdog shell",
        source,
    }
}
