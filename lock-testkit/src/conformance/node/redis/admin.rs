//! Access to a server that stays open whatever its fault.

use lock_core::Reply;

use crate::conformance::{CheckResult, Failure};
use crate::{Connection, RedisServer, RedisServerBuilder, ServerError};

/// The kit's own user: permissions that are taken from the default user, as which nodes log in, are
/// not taken from it.
const NAME: &str = "conformance";

/// Returns a server that has this user from the start, and so also after a restart.
pub(super) fn builder() -> RedisServerBuilder {
    RedisServer::builder()
        .arg("--user", NAME)
        .arg("on", "nopass")
        .arg("~*", "&*")
        .arg("+@all", "+@all")
}

/// Opens a connection of this user.
pub(super) fn connect(server: &RedisServer) -> Result<Connection, ServerError> {
    let mut connection = server.connect()?;
    connection.command(&["AUTH", NAME, "any"])?;
    Ok(connection)
}

/// Sends a command from outside and returns the answer.
pub(super) fn ask<W: AsRef<[u8]>>(server: &RedisServer, words: &[W]) -> CheckResult<Reply> {
    Ok(connect(server)?.command(words)?)
}

/// Sends a command of plain words.
pub(super) fn run(server: &RedisServer, words: &str) -> CheckResult {
    ask(server, &words.split(' ').collect::<Vec<_>>())?;
    Ok(())
}

pub(super) fn unexpected(reply: &Reply) -> Failure {
    let error = std::io::Error::other(format!("{reply:?}"));
    Failure::setup("look into a redis-server", &error)
}
