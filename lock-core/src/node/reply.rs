//! The answers of a server.

/// A server's answer to a [`Command`](super::Command), the same over RESP2 and RESP3.
///
/// A status (`+OK`) and a bulk string are both [`Reply::Bytes`]; the null of either protocol is
/// [`Reply::Nil`]. An error reply is not a `Reply` but a
/// [`NodeError::server`](super::NodeError::server).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// No value: RESP2 `$-1` and `*-1`, RESP3 `_`.
    Nil,
    /// An integer; a RESP3 boolean is 1 or 0.
    Int(i64),
    /// A status or a string of bytes.
    Bytes(Vec<u8>),
    /// Several replies in order.
    Array(Vec<Reply>),
}

impl Reply {
    /// The `+OK` of a server.
    #[must_use]
    pub fn ok() -> Self {
        Self::Bytes(b"OK".to_vec())
    }
}
