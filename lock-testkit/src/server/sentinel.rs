//! What a sentinel begins with.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::RedisServer;

/// The file that a sentinel in this directory reads, and keeps what it knows in.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("sentinel.conf")
}

pub(super) fn config(name: &str, master: &RedisServer, quorum: usize) -> String {
    let (ip, port) = (master.addr().ip(), master.port());
    let mut config = format!(
        "sentinel monitor {name} {ip} {port} {quorum}\n\
         sentinel down-after-milliseconds {name} 1000\n\
         sentinel failover-timeout {name} 15000\n"
    );
    if let Some(password) = &master.launch.password {
        // A `String` can always be written to.
        writeln!(config, "sentinel auth-pass {name} {password}").ok();
    }
    config
}
