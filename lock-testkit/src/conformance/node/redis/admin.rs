//! The way into a server that stays open whatever is wrong with it.

use lock_core::Reply;

use crate::conformance::{CheckResult, Failure};
use crate::{Connection, RedisServer, RedisServerBuilder, ServerError};

/// A user of its own: what is taken from the default user, as whom nodes log in, is not taken
/// from it.
const NAME: &str = "conformance";

/// A server that has this user from the start, and so after a restart too.
pub(super) fn builder() -> RedisServerBuilder {
    RedisServer::builder()
        .arg("--user", NAME)
        .arg("on", "nopass")
        .arg("~*", "&*")
        .arg("+@all", "+@all")
}

/// A connection of this user.
pub(super) fn connect(server: &RedisServer) -> Result<Connection, ServerError> {
    let mut connection = server.connect()?;
    connection.command(&["AUTH", NAME, "any"])?;
    Ok(connection)
}

/// What the server answers to a command from outside.
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
