//! Commands on their way out, replies on their way in.

use std::io;

use fred::bytes::Bytes;
use fred::error::{Error, ErrorKind};
use fred::types::{ClusterHash, CustomCommand, Resp3Frame, Value};
use lock_core::{Command, NodeError, Reply};

/// A command as fred takes it. All nodes of a lock share its bytes.
pub(crate) struct Encoded {
    pub(crate) command: CustomCommand,
    pub(crate) args: Vec<Value>,
}

pub(crate) fn encode(command: &Command) -> Encoded {
    let args = command.args();
    let (name, args) = args
        .split_first()
        .map_or((&[][..], &[][..]), |(name, args)| (&**name, args));
    let bytes = Bytes::from(args.concat());
    let mut end = 0;
    let args = args.iter().map(|arg| {
        let start = end;
        end += arg.len();
        Value::Bytes(bytes.slice(start..end))
    });
    Encoded {
        args: args.collect(),
        command: CustomCommand::new(
            String::from_utf8_lossy(name).into_owned(),
            ClusterHash::FirstKey,
            false,
        ),
    }
}

/// What the server answered, the same over RESP2 and RESP3 (rules N2 and N10).
pub(crate) fn reply(frame: Resp3Frame) -> Result<Reply, NodeError> {
    Ok(match frame {
        Resp3Frame::Null => Reply::Nil,
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::Boolean { data, .. } => Reply::Int(i64::from(data)),
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::ChunkedString(data) => Reply::Bytes(data.into()),
        Resp3Frame::Double { data, .. } => Reply::Bytes(data.to_string().into_bytes()),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => array(data)?,
        Resp3Frame::Set { data, .. } => array(data)?,
        // RESP2 has no maps: there the same reply is a flat list of keys and values.
        Resp3Frame::Map { data, .. } => {
            array(data.into_iter().flat_map(|(key, value)| [key, value]))?
        }
        Resp3Frame::SimpleError { data, .. } => return Err(NodeError::server(&*data)),
        Resp3Frame::BlobError { data, .. } => {
            return Err(NodeError::server(String::from_utf8_lossy(&data)));
        }
        // No server sends a HELLO.
        Resp3Frame::Hello { .. } => Reply::Bytes(b"HELLO".to_vec()),
    })
}

/// The same of what fred has read already.
pub(crate) fn value(value: Value) -> Reply {
    match value {
        Value::Null => Reply::Nil,
        Value::Integer(number) => Reply::Int(number),
        Value::Boolean(yes) => Reply::Int(i64::from(yes)),
        Value::String(text) => Reply::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Reply::Bytes(bytes.into()),
        Value::Array(values) => Reply::Array(values.into_iter().map(self::value).collect()),
        // No command of ours is answered with anything else.
        other => Reply::Bytes(format!("{other:?}").into_bytes()),
    }
}

fn array(frames: impl IntoIterator<Item = Resp3Frame>) -> Result<Reply, NodeError> {
    let replies: Result<_, _> = frames.into_iter().map(reply).collect();
    Ok(Reply::Array(replies?))
}

/// The server's answer, if the error is one: to the handshake, or one that fred takes for the end of
/// the connection, such as `CLUSTERDOWN`.
pub(crate) fn server_error(error: &Error) -> Option<NodeError> {
    let may_be_of_server = matches!(
        error.kind(),
        ErrorKind::Auth
            | ErrorKind::Cluster
            | ErrorKind::Config
            | ErrorKind::InvalidArgument
            | ErrorKind::Unknown
    );
    let shaped = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let code = error.details().split(' ').next()?;
    (may_be_of_server && code.len() > 1 && code.bytes().all(shaped))
        .then(|| NodeError::server(error.details()))
}

/// The most characters that are kept of what is told by fred, which may be a server's words.
const DETAILS: usize = 512;

/// The error as a cause, free of the way in which fred prints those of the system.
pub(crate) fn cause(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    let code = error.details().strip_prefix("Os { code: ");
    let code = code.and_then(|rest| rest.split(',').next()?.parse().ok());
    match code {
        Some(code) if *error.kind() == ErrorKind::IO => io::Error::from_raw_os_error(code).into(),
        _ => match error.details().char_indices().nth(DETAILS) {
            Some((end, _)) => {
                let cut = format!("{}...", &error.details()[..end]);
                Error::new(error.kind().clone(), cut).into()
            }
            None => error.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_with_a_code_is_taken_for_the_servers() {
        let code = |kind, details: &'static str| {
            let error = server_error(&Error::new(kind, details))?;
            error.code().map(str::to_owned)
        };
        let clusterdown = "CLUSTERDOWN The cluster is down";
        assert_eq!(
            code(ErrorKind::Cluster, clusterdown).as_deref(),
            Some("CLUSTERDOWN")
        );
        let noauth = "NOAUTH Authentication required.";
        assert_eq!(code(ErrorKind::Auth, noauth).as_deref(), Some("NOAUTH"));
        for (kind, details) in [
            (ErrorKind::IO, "IO is no code"),
            (ErrorKind::Unknown, "Failed to send command to router."),
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::Unknown, "A wrong argument"),
        ] {
            assert_eq!(code(kind, details), None, "{details}");
        }
    }

    #[test]
    fn an_error_of_the_system_is_told_in_its_own_words_and_a_long_one_in_part() {
        let refused = io::Error::from_raw_os_error(111);
        let error = cause(Error::from(refused));
        assert_eq!(
            error.to_string(),
            io::Error::from_raw_os_error(111).to_string()
        );
        let closed = Error::new(ErrorKind::IO, "Connection closed.");
        assert_eq!(cause(closed).to_string(), "IO Error: Connection closed.");
        let long = Error::new(ErrorKind::Unknown, "\u{e9}".repeat(1 << 20));
        assert!(format!("{:?}", cause(long)).len() < 3 * DETAILS);
    }

    #[test]
    fn an_error_inside_an_array_is_an_error_of_the_whole_reply() {
        let line = Resp3Frame::SimpleError {
            data: "OOM no room".into(),
            attributes: None,
        };
        let array = Resp3Frame::Array {
            data: vec![Resp3Frame::Null, line],
            attributes: None,
        };
        assert_eq!(reply(array).unwrap_err().code(), Some("OOM"));
    }
}
