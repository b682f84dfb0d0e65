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

/// Replies of any form, most of which belong to no command.
#[cfg(test)]
pub(crate) fn any_reply() -> impl proptest::strategy::Strategy<Value = Reply> {
    use proptest::prelude::*;

    let words = prop::sample::select(vec!["OK", "0", "1", "127.0.0.1", "6379", "token", ""]);
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let one = prop_oneof![
        Just(Reply::Nil),
        prop_oneof![-2..3_i64, any::<i64>()].prop_map(Reply::Int),
        words.prop_map(|word| Reply::Bytes(word.into())),
        bytes.prop_map(Reply::Bytes),
    ];
    one.prop_recursive(3, 40, 5, |reply| {
        prop::collection::vec(reply, 0..5).prop_map(Reply::Array)
    })
}
