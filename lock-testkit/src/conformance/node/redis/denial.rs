//! Makes a server answer with errors.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use lock_core::Reply;

use super::admin::{ask, connect, run};
use crate::conformance::node::harness::{Access, Denial};
use crate::conformance::{CheckResult, Failure};
use crate::{Connection, FaultProxy, ProxyFault, RedisServer};

/// How long a server may take to get into the state that is asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time between two looks at it.
const POLL: Duration = Duration::from_millis(2);

/// What the server denies now, and what is needed to end it.
#[derive(Debug, Default)]
pub(super) struct Denials {
    active: Vec<Denial>,
    endless: Option<Connection>,
}

impl Denials {
    pub(super) fn start(
        &mut self,
        denial: Denial,
        server: &RedisServer,
        proxy: &FaultProxy,
    ) -> CheckResult {
        // Noted first, so that it is ended even if it is only half begun.
        self.active.push(denial);
        match denial {
            Denial::NoAuth => {
                run(server, "CONFIG SET requirepass another")?;
                // A connection that is logged in would stay so.
                proxy.cut();
            }
            Denial::NoPerm => run(server, "ACL SETUSER default -set -eval -evalsha")?,
            Denial::NoPermInScript => run(server, "ACL SETUSER default -get")?,
            Denial::ReadOnly => run(server, "REPLICAOF 127.0.0.1 1")?,
            Denial::OutOfMemory => run(server, "CONFIG SET maxmemory 1")?,
            Denial::Misconf => fail_to_save(server)?,
            Denial::Busy => self.endless = Some(keep_busy(server)?),
            // A server loads only for a moment, and one that redirects serves no other commands.
            Denial::Loading | Denial::Moved => answer(proxy, denial),
        }
        Ok(())
    }

    /// Ends all denials except for those that the proxy answers. `asks` says whether the server is to
    /// ask for [`Access::PASSWORD`] afterwards.
    pub(super) fn end(&mut self, server: &RedisServer, asks: bool) -> CheckResult {
        while let Some(denial) = self.active.pop() {
            match denial {
                Denial::NoAuth => {
                    let password = if asks { Access::PASSWORD } else { "" };
                    ask(server, &["CONFIG", "SET", "requirepass", password])?;
                }
                Denial::NoPerm | Denial::NoPermInScript => {
                    run(server, "ACL SETUSER default +@all")?;
                }
                Denial::ReadOnly => run(server, "REPLICAOF NO ONE")?,
                Denial::OutOfMemory => run(server, "CONFIG SET maxmemory 0")?,
                Denial::Misconf => {
                    ask(server, &["CONFIG", "SET", "save", ""])?;
                    std::fs::remove_dir(dump(server))
                        .map_err(|error| Failure::setup("let a server save again", &error))?;
                }
                Denial::Busy => {
                    run(server, "SCRIPT KILL")?;
                    if let Some(mut endless) = self.endless.take() {
                        // The answer is that the script was killed.
                        endless.receive().err();
                    }
                    run(server, "CONFIG SET lua-time-limit 5000")?;
                }
                Denial::Loading | Denial::Moved => {}
            }
        }
        Ok(())
    }

    /// Forgets all denials: the server has started again, without any of them.
    pub(super) fn forget(&mut self) {
        self.active.clear();
        self.endless = None;
    }
}

/// Has the proxy answer in the place of the server.
pub(super) fn answer(proxy: &FaultProxy, denial: Denial) {
    let line = format!("-{}\r\n", denial.line());
    proxy.set_fault(ProxyFault::Answer(line.into_bytes()));
}

/// Returns the file to which the server would save its data.
fn dump(server: &RedisServer) -> PathBuf {
    server.dir().join("dump.rdb")
}

/// Lets the server fail to save, by a folder in the place of its file.
fn fail_to_save(server: &RedisServer) -> CheckResult {
    std::fs::create_dir(dump(server))
        .map_err(|error| Failure::setup("keep a server from saving", &error))?;
    ask(server, &["CONFIG", "SET", "save", "3600 1000000"])?;
    run(server, "BGSAVE")?;
    until("the server to fail to save", || {
        let Reply::Bytes(info) = ask(server, &["INFO", "persistence"])? else {
            return Ok(false);
        };
        Ok(String::from_utf8_lossy(&info).contains("rdb_last_bgsave_status:err"))
    })
}

/// Lets the server run a script that does not end.
fn keep_busy(server: &RedisServer) -> CheckResult<Connection> {
    run(server, "CONFIG SET lua-time-limit 10")?;
    let mut endless = connect(server)?;
    endless.send(&["EVAL", "while true do end", "0"])?;
    until("the server to be busy", || {
        Ok(ask(server, &["DBSIZE"]).is_err_and(|error| error.found().contains("BUSY")))
    })?;
    Ok(endless)
}

fn until(what: &str, holds: impl Fn() -> CheckResult<bool>) -> CheckResult {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > PATIENCE {
            let error = std::io::Error::other("it did not come to it");
            return Err(Failure::setup(format!("wait for {what}"), &error));
        }
        thread::sleep(POLL);
    }
    Ok(())
}
