//! Commands on their way out, replies on their way in.

use lock_core::{Command, NodeError, Reply};
use redis::{Cmd, RedisError, RedisWrite, ServerError, Value};

/// The command as redis-rs sends it.
pub(crate) fn pack(command: &Command) -> Cmd {
    let args = command.args();
    let mut cmd = Cmd::with_capacity(args.len(), args.iter().map(|arg| arg.len()).sum());
    for arg in &args {
        cmd.write_arg(arg);
    }
    cmd
}

/// What the server answered, the same over RESP2 and RESP3 (rules N2 and N10).
pub(crate) fn reply(value: Value) -> Result<Reply, NodeError> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::Boolean(yes) => Reply::Int(i64::from(yes)),
        Value::Okay => Reply::ok(),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
            Reply::Bytes(text.into_bytes())
        }
        Value::Double(number) => Reply::Bytes(number.to_string().into_bytes()),
        Value::Array(values) | Value::Set(values) | Value::Push { data: values, .. } => {
            Reply::Array(values.into_iter().map(reply).collect::<Result<_, _>>()?)
        }
        // RESP2 has no maps: there the same reply is a flat list of keys and values.
        Value::Map(pairs) => {
            let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::Array(flat.map(reply).collect::<Result<_, _>>()?)
        }
        Value::Attribute { data, .. } => reply(*data)?,
        Value::ServerError(error) => return Err(server_error(&error)),
        // No command of ours is answered with a big number, or with a type yet to come.
        other => Reply::Bytes(format!("{other:?}").into_bytes()),
    })
}

/// The error reply as it stood on the wire. redis-rs takes the line apart at its first space, and
/// its own `Display` shows the name of an enum variant in place of many a code.
fn server_error(error: &ServerError) -> NodeError {
    match error.details() {
        Some(details) => NodeError::server(format!("{} {details}", error.code())),
        None => NodeError::server(error.code()),
    }
}

/// The server's answer, if the error is one.
pub(crate) fn server_error_of(error: RedisError) -> Result<NodeError, RedisError> {
    let is_server_error = error.code().is_some();
    if is_server_error
        && let Some(errors) = error.clone().into_server_errors()
        && let Some((_, error)) = errors.first()
    {
        return Ok(server_error(error));
    }
    match error.detail() {
        // What is left of the answer to `SELECT`.
        Some(text) if is_server_error => Ok(NodeError::server(format!("ERR {text}"))),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_inside_an_array_is_an_error_of_the_whole_reply() {
        let inner = redis::make_extension_error("OOM".into(), Some("no room".into()));
        let Some(errors) = inner.into_server_errors() else {
            panic!("no server error");
        };
        let value = Value::Array(vec![Value::Int(1), Value::ServerError(errors[0].1.clone())]);
        let error = reply(value).unwrap_err();
        assert_eq!(error.to_string(), "OOM no room");
        assert_eq!(error.code(), Some("OOM"));
    }

    #[test]
    fn booleans_statuses_sets_and_maps_read_as_their_forms_in_resp2() {
        assert_eq!(reply(Value::Boolean(true)).unwrap(), Reply::Int(1));
        assert_eq!(reply(Value::Boolean(false)).unwrap(), Reply::Int(0));
        assert_eq!(reply(Value::Okay).unwrap(), Reply::ok());
        let status = Value::SimpleString("QUEUED".into());
        assert_eq!(reply(status).unwrap(), Reply::Bytes(b"QUEUED".to_vec()));
        let set = Value::Set(vec![Value::Nil]);
        assert_eq!(reply(set).unwrap(), Reply::Array(vec![Reply::Nil]));
        let map = Value::Map(vec![(Value::Int(1), Value::Int(2))]);
        let flat = Reply::Array(vec![Reply::Int(1), Reply::Int(2)]);
        assert_eq!(reply(map).unwrap(), flat);
    }
}
