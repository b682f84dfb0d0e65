//! A node that sends scripts of its own.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::Subscription;
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::conformance::node::Target;
use redis::{Client, Cmd, Connection, ConnectionLike, Value};

use crate::script::Script;

/// A node over one blocking connection, which sends this script in place of the core's.
pub(crate) struct ScriptNode {
    label: String,
    script: Script,
    /// What the server calls it; nothing that it knows if it does not compile.
    digest: String,
    connection: Mutex<Connection>,
}

impl ScriptNode {
    pub(crate) fn connect(target: &Target, script: Script) -> Result<Self, redis::RedisError> {
        let mut connection = Client::open(target.url())?.get_connection()?;
        let load = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(&script.source)
            .to_owned();
        let digest = load
            .query(&mut connection)
            .unwrap_or_else(|_| "0".repeat(40));
        Ok(Self {
            label: target.addr().to_string(),
            script,
            digest,
            connection: Mutex::new(connection),
        })
    }
}

impl fmt::Debug for ScriptNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptNode")
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl RedisNode for ScriptNode {
    async fn execute(&self, command: &Command, _within: Duration) -> Result<Reply, NodeError> {
        let mut words = command.args();
        if self.script.belongs_to(command.operation()) {
            let by_source = *words[0] == *b"EVAL";
            let script = if by_source {
                &self.script.source
            } else {
                &self.digest
            };
            words[1] = script.as_bytes().into();
        }
        let mut cmd = Cmd::new();
        for word in &words {
            cmd.arg(&**word);
        }
        match self.connection.lock().unwrap().req_command(&cmd) {
            Ok(value) => reply(value),
            Err(error) => Err(NodeError::connection("no answer").with_source(error)),
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

fn reply(value: Value) -> Result<Reply, NodeError> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::Okay => Reply::ok(),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::Array(values) => {
            Reply::Array(values.into_iter().map(reply).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            return Err(NodeError::server(format!("{} {details}", error.code())));
        }
        other => panic!("{other:?}"),
    })
}
